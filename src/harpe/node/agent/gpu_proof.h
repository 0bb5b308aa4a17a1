#pragma once
/// \file
/// What a policy's entry may require (`requires`): that the kernel or the driver shows a GPU to be
/// the client's. Nothing that the client says counts, such as CUDA_VISIBLE_DEVICES.
///
/// device: the client's cgroup lets it open the GPU's device file and keeps it from devices that
/// are not listed; or, where the cgroup keeps it from nothing, the device file belongs to the
/// client's user and no other may open it. Only root can set either: lists of cgroup v1 and
/// programs of cgroup v2 need CAP_SYS_ADMIN in the first namespace. A client that has ended is
/// looked for in the cgroup that it was in, while that lasts.
///
/// computing: the driver's newest list has a process of the client's user, and no other user's.
///
/// What cannot be found out is not proven.

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

/// Thread-safe. Reads some small files of /proc and the cgroup file system a call.
class GpuProver {
 public:
  /// Where the kernel shows processes and cgroups; others in tests.
  struct Roots {
    std::filesystem::path processes = "/proc", cgroups = "/sys/fs/cgroup";
  };
  static constexpr Seconds kListLasts{6};  ///< a list of processes, of which one comes each 2 s
  /// What was found of a client's devices counts so long: a client that asks without end costs no
  /// more.
  static constexpr Seconds kVerdictLasts{1};

  /// \param device_files  one a GPU; empty: it has none that is known
  GpuProver(std::vector<std::filesystem::path> device_files, Roots roots);

  /// What is proven of `wanted`.
  Proofs proven(const net::Peer& peer, int gpu, Proofs wanted, Instant now);
  /// The driver's list of processes on a GPU; nullopt: it does not tell.
  void computing(int gpu, const std::optional<std::vector<std::int64_t>>& processes, Instant now);
  /// Forgets the cgroups of all other clients.
  void keep(const std::vector<net::Peer>& clients);

 private:
  /// Where a process is in the trees of cgroups; no path: there is no such tree.
  struct Cgroups {
    std::optional<std::filesystem::path> v1, v2;
    std::uint64_t v1_inode = 0, v2_inode = 0;
  };
  /// A process: its number and when it started.
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
    std::vector<std::int64_t> uids;  ///< -1: of one that could not be found out
    Instant time;
  };
  std::map<int, Users> users_ HARPE_GUARDED_BY(mutex_);  ///< by GPU
};

}  // namespace harpe::node
