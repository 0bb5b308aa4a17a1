#pragma once
/// \file
/// What `harpe monitor` shows of one look at all devices. Only for `.cc` files.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/command/command/json_output.h"
#include "harpe/device/measure/energy_monitor.h"
#include "harpe/node/node_client/lease.h"

namespace harpe::command {

/// What a GPU shows at one moment beside its energy. What cannot be read is empty.
struct GpuView {
  std::optional<Watts> power, limit;
  std::optional<Megahertz> clock, memory_clock;
  std::optional<double> temperature, utilisation;
  std::optional<EventReasons> reasons;
  // Of a terminal's view alone.
  std::optional<Megahertz> highest_clock = {};
  std::optional<MemoryUse> memory = {};
};
GpuView view_of(Gpu& gpu);

/// One look at all devices: energy since the start, and power since the look before.
struct Look {
  WindowEnergy window;
  std::vector<GpuView> gpus;               ///< as the first devices of `window`
  std::vector<std::optional<Watts>> mean;  ///< of each device since the look before
};

/// What a device draws at the look: of a GPU by its sensor, else the mean since the look before.
std::optional<Watts> power_now(const Look& look, std::size_t device);

/// What stands in place of the power of a device that failed.
std::string fault_word(const Error& error);
/// One line: the time of day and each device's power.
std::string monitor_line(const Look& look, const std::string& time_of_day);

extern const char* const kMonitorCsvHeading;
/// One row a device. What is not known is empty.
std::string monitor_csv(const Look& look);
Json monitor_json(const Look& look, bool simulated);

// The processes that use GPUs of this node, as far as this user may see them, from the drivers,
// /proc, and the leases of the node's agent.

/// A process that uses GPUs or holds a lease on them. Texts are unchanged: make them `printable`
/// before a terminal shows them. Unknown members are empty.
struct GpuUser {
  std::vector<int> gpus;  ///< indices, rising
  std::int64_t pid = 0;
  std::string user;     ///< its name, else its number
  std::string program;  ///< the command line, without the folder of the program
  std::string job;      ///< HARPE_JOB, else what Slurm calls it
  std::string lease;    ///< what of the GPUs it may set: "graphics clocks, power limit"
};

/// What Linux knows of a process; empty but for the pid where there is none, such as one of another
/// container.
/// \param proc  where procfs is
GpuUser process_of(std::int64_t pid, const std::filesystem::path& proc = "/proc");

/// One entry a process, by its first GPU and then its pid.
/// \param processes  by index of the GPU
/// \param leases  with the GPUs' indices
std::vector<GpuUser> gpu_users(const std::map<int, std::vector<std::int64_t>>& processes,
                               const std::vector<node::Lease>& leases,
                               const std::filesystem::path& proc = "/proc");

}  // namespace harpe::command
