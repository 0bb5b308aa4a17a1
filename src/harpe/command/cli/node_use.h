#pragma once
/// \file
/// Which processes use which GPUs of this node, as far as this user may see it: what the drivers
/// list, what Linux knows of those processes, and the leases of the node's agent.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/node/node_client/lease.h"

namespace harpe::command {

/// One process on GPUs, or one that holds a lease on them. Texts are as they were found: of a
/// terminal they must be made `printable` first. What is not known is empty.
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

/// Looks in a thread of its own, as the agent may be slow or not there. Thread-safe. Its end waits
/// for the look in progress, a second at most where the agent is silent.
class UseWatch {
 public:
  /// \param uuids  of GPUs with their indices, by which leases are told
  /// \param processes  as `gpu_users` takes them; called by the thread
  static std::unique_ptr<UseWatch> start(
      std::map<std::string, int> uuids,
      std::function<std::map<int, std::vector<std::int64_t>>()> processes, Seconds every);
  virtual ~UseWatch() = default;
  /// As of the newest look.
  virtual std::vector<GpuUser> users() const = 0;
};

}  // namespace harpe::command
