#pragma once
/// \file
/// Proofs that a policy's entry may require (`requires`): the kernel or the driver shows that a GPU
/// belongs to the client. Claims of the client, such as CUDA_VISIBLE_DEVICES, prove nothing.
///
/// device: the client's cgroup lets it open the GPU's device file and denies devices that are not
/// listed. If the cgroup denies nothing, the device file belongs to the client's user and no other
/// user may open it. Only root can arrange either: lists of cgroup v1 and programs of cgroup v2
/// need CAP_SYS_ADMIN in the first namespace. For a client that has ended, its last known cgroup is
/// checked while it exists.
///
/// computing: the driver's newest list has a process of the client's user and no other user's.
///
/// A proof that cannot be established does not hold.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/mutex.h"
#include "harpe/node/agent/policy.h"

namespace harpe::node {

/// Thread-safe. Each call reads a few small files of /proc and the cgroup file system.
class GpuProver {
 public:
  /// Mount points of the kernel's process and cgroup file systems; tests use others.
  struct Roots {
    std::filesystem::path processes = "/proc", cgroups = "/sys/fs/cgroup";
  };
  static constexpr Seconds kListLasts{6};  ///< validity of a list of processes, updated every 2 s
  /// Validity of a verdict about a client's devices. Bounds the cost of a client that sends
  /// requests without pause.
  static constexpr Seconds kVerdictLasts{1};

  /// \param device_files  one per GPU; empty if unknown
  GpuProver(std::vector<std::filesystem::path> device_files, Roots roots);

  /// Returns the proofs in `wanted` that hold.
  Proofs proven(const net::Peer& peer, int gpu, Proofs wanted, Instant now);
  /// Sets the driver's list of processes on a GPU; nullopt if the driver does not report it.
  void computing(int gpu, const std::optional<std::vector<std::int64_t>>& processes, Instant now);
  /// Drops the stored cgroups of all clients except these.
  void keep(const std::vector<net::Peer>& clients);

 private:
  /// The position of a process in the trees of cgroups; nullopt if a tree does not exist.
  struct Cgroups {
    std::optional<std::filesystem::path> v1, v2;
    std::uint64_t v1_inode = 0, v2_inode = 0;
  };
  /// A process: its id and its start time.
  using Process = std::pair<std::int64_t, std::uint64_t>;

  std::optional<Cgroups> cgroups_of(const net::Peer& peer) HARPE_REQUIRES(mutex_);
  bool proves_device(const net::Peer& peer, int gpu, Instant now) HARPE_REQUIRES(mutex_);
  bool looks_proven(const net::Peer& peer, int gpu) HARPE_REQUIRES(mutex_);
  bool proves_computing(const net::Peer& peer, int gpu, Instant now) const HARPE_REQUIRES(mutex_);

  const std::vector<std::filesystem::path> device_files_;
  const Roots roots_;
  Mutex mutex_;
  std::map<Process, Cgroups> known_ HARPE_GUARDED_BY(mutex_);
  struct Found {
    bool proven = false;
    Instant time;
  };
  /// A client of a user, and a GPU.
  using Claim = std::tuple<Process, std::int64_t, int>;
  std::map<Claim, Found> found_ HARPE_GUARDED_BY(mutex_);
  struct Users {
    std::vector<std::int64_t> uids;  ///< user of each process; -1 if unknown
    Instant time;
  };
  std::map<int, Users> users_ HARPE_GUARDED_BY(mutex_);  ///< by GPU
};

}  // namespace harpe::node
