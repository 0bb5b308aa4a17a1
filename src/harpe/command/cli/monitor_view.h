#pragma once
/// \file
/// Output of `harpe monitor` for one reading of all devices. Include only in `.cc` files.

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

/// Readings of a GPU at one time, other than its energy. Values that cannot be read are nullopt.
struct GpuView {
  std::optional<Watts> power, limit;
  std::optional<Megahertz> clock, memory_clock;
  std::optional<double> temperature, utilisation;
  std::optional<EventReasons> reasons;
  // Only for the view of a terminal.
  std::optional<Megahertz> highest_clock = {};
  std::optional<MemoryUse> memory = {};
};
GpuView view_of(Gpu& gpu);

/// One reading of all devices: energy since the start, and power since the reading before.
struct Look {
  WindowEnergy window;
  std::vector<GpuView> gpus;               ///< in the order of the first devices of `window`
  std::vector<std::optional<Watts>> mean;  ///< of each device since the reading before
};

/// Returns the power of a device: for a GPU by its sensor, otherwise its mean since the last
/// reading.
std::optional<Watts> power_now(const Look& look, std::size_t device);

/// Returns the word that replaces the power of a device that failed.
std::string fault_word(const Error& error);
/// Returns one line: the time of day and each device's power.
std::string monitor_line(const Look& look, const std::string& time_of_day);

extern const char* const kMonitorCsvHeading;
/// Returns one row per device, with empty cells for unknown values.
std::string monitor_csv(const Look& look);
Json monitor_json(const Look& look, bool simulated);

// The processes that use GPUs of this node, as far as this user can see them, from the drivers,
// /proc, and the leases of the node's agent.

/// A process that uses GPUs or holds a lease on them. Texts are raw: make them `printable` before a
/// terminal shows them. Unknown members are empty.
struct GpuUser {
  std::vector<int> gpus;  ///< indices, rising
  std::int64_t pid = 0;
  std::string user;     ///< its name, otherwise its number
  std::string program;  ///< the command line, without the folder of the program
  std::string job;      ///< HARPE_JOB, otherwise Slurm's name of the job
  std::string lease;    ///< controls of the GPUs that it may set: "graphics clocks, power limit"
};

/// Returns the facts that Linux has about a process; only the pid if it does not exist, for example
/// because it runs in another container.
/// \param proc  mount point of procfs
GpuUser process_of(std::int64_t pid, const std::filesystem::path& proc = "/proc");

/// Returns one entry per process, ordered by first GPU and then pid.
/// \param processes  by index of the GPU
/// \param leases     with the GPUs' indices
std::vector<GpuUser> gpu_users(const std::map<int, std::vector<std::int64_t>>& processes,
                               const std::vector<node::Lease>& leases,
                               const std::filesystem::path& proc = "/proc");

}  // namespace harpe::command
