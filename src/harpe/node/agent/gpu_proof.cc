#include "harpe/node/agent/gpu_proof.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "harpe/base/file.h"
#include "harpe/base/text.h"
#include "harpe/base/unique_fd.h"
#include "harpe/node/agent/device_filter.h"

namespace harpe::node {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kLargestCgroupFile = 1 << 20;
/// A device number in no list (the kernel's largest): a cgroup that allows it allows all devices.
constexpr DeviceNumber kUnlisted{0xfff, 0xfffff};

/// Verdict of a cgroup on one device; `kNothing` if the cgroup allows all devices.
enum class Verdict : unsigned char { kGiven, kDenied, kNothing, kUnknown };

Verdict verdict(std::optional<bool> device, std::optional<bool> unlisted) {
  if (!device || !unlisted) return Verdict::kUnknown;
  if (!*device) return Verdict::kDenied;
  return *unlisted ? Verdict::kNothing : Verdict::kGiven;
}

/// Opens a directory; nullopt if it no longer has this inode.
std::optional<UniqueFd> open_same(const fs::path& directory, std::uint64_t inode) {
  UniqueFd opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status{};
  if (!opened || ::fstat(opened.get(), &status) != 0 || status.st_ino != inode) return std::nullopt;
  return opened;
}

Verdict verdict_v1(const fs::path& cgroup, std::uint64_t inode, DeviceNumber device) {
  if (!open_same(cgroup, inode)) return Verdict::kUnknown;
  const auto list = read_file(cgroup / "devices.list", kLargestCgroupFile);
  if (!list.ok()) return Verdict::kUnknown;
  return verdict(list_allows(*list, device), list_allows(*list, kUnlisted));
}

Verdict verdict_v2(const fs::path& cgroup, std::uint64_t inode, DeviceNumber device) {
  const auto directory = open_same(cgroup, inode);
  if (!directory) return Verdict::kUnknown;
  const auto ask = [&](DeviceNumber which) -> std::optional<bool> {
    const auto allowed = programs_allow(directory->get(), which);
    return allowed.ok() ? std::optional(*allowed) : std::nullopt;
  };
  return verdict(ask(device), ask(kUnlisted));
}

/// Returns the common verdict of both cgroup trees, which are in force at once.
Verdict both(Verdict a, Verdict b) {
  for (const Verdict decisive : {Verdict::kDenied, Verdict::kUnknown, Verdict::kGiven}) {
    if (a == decisive || b == decisive) return decisive;
  }
  return Verdict::kNothing;
}

/// Returns the path of a cgroup below the root of its tree; nullopt if outside of this namespace.
std::optional<fs::path> below(const fs::path& root, std::string_view path) {
  if (path.empty() || path[0] != '/' || path.find("/..") != std::string_view::npos)
    return std::nullopt;
  return root / path.substr(1);
}

std::uint64_t inode_of(const fs::path& directory) {
  struct stat status{};
  return ::stat(directory.c_str(), &status) == 0 ? status.st_ino : 0;
}

/// Returns the root of the cgroup v2 tree, a separate directory on systems with both trees.
fs::path unified_root(const fs::path& cgroups) {
  struct statfs status{};
  const bool apart = ::statfs(cgroups.c_str(), &status) == 0 &&
                     status.f_type != CGROUP2_SUPER_MAGIC && fs::exists(cgroups / "unified");
  return apart ? cgroups / "unified" : cgroups;
}

/// Returns true if a device file belongs to the user and no other user may open it.
bool is_of(const struct stat& file, const fs::path& path, std::int64_t uid) {
  constexpr unsigned kOthers = S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;
  constexpr unsigned kOwner = S_IRUSR | S_IWUSR;
  if (file.st_uid != uid || (file.st_mode & kOwner) != kOwner || (file.st_mode & kOthers) != 0) {
    return false;
  }
  // An ACL's mask is the group's bits: without them it grants nothing, but it is rejected anyway.
  return ::lgetxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) < 0;
}

}  // namespace

GpuProver::GpuProver(std::vector<fs::path> device_files, Roots roots)
    : device_files_(std::move(device_files)), roots_(std::move(roots)) {}

Proofs GpuProver::proven(const net::Peer& peer, int gpu, Proofs wanted, Instant now) {
  Proofs proven;
  if (peer.uid < 0) return proven;
  const MutexLock lock(mutex_);
  if (wanted.has(Proof::kDevice) && proves_device(peer, gpu, now)) proven.add({Proof::kDevice});
  if (wanted.has(Proof::kComputing) && proves_computing(peer, gpu, now)) {
    proven.add({Proof::kComputing});
  }
  return proven;
}

// --- Devices.

std::optional<GpuProver::Cgroups> GpuProver::cgroups_of(const net::Peer& peer) {
  const Process process{peer.pid, peer.start_ticks};
  if (peer.pid <= 0 || peer.start_ticks == 0) return std::nullopt;
  const fs::path place = roots_.processes / std::to_string(peer.pid);
  struct stat owner{};
  const bool is_users = ::stat(place.c_str(), &owner) == 0 && owner.st_uid == peer.uid;
  const auto text = read_file(place / "cgroup", kLargestCgroupFile);
  // The text belongs to that process if the process still exists.
  if (!text.ok() || net::start_of_process(peer.pid) != peer.start_ticks) {
    const auto known = known_.find(process);
    return known == known_.end() ? std::nullopt : std::optional(known->second);
  }
  if (!is_users) return std::nullopt;
  Cgroups found;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    // "4:devices:/job", "0::/job"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) return std::nullopt;
    const std::string controllers =
        "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    const std::string_view path = line.substr(second + 1);
    if (controllers.find(",devices,") != std::string::npos) {
      found.v1 = below(roots_.cgroups / "devices", path);
      if (!found.v1) return std::nullopt;
      found.v1_inode = inode_of(*found.v1);
    } else if (controllers == ",,") {
      found.v2 = below(unified_root(roots_.cgroups), path);
      if (!found.v2) return std::nullopt;
      found.v2_inode = inode_of(*found.v2);
    }
  }
  known_[process] = found;
  return found;
}

bool GpuProver::proves_device(const net::Peer& peer, int gpu, Instant now) {
  constexpr std::size_t kMostVerdicts = 1024;
  const Claim claim{{peer.pid, peer.start_ticks}, peer.uid, gpu};
  const auto known = found_.find(claim);
  if (known != found_.end() && now < known->second.time + kVerdictLasts) {
    return known->second.proven;
  }
  if (found_.size() >= kMostVerdicts) found_.clear();
  const bool proven = looks_proven(peer, gpu);
  found_[claim] = {proven, now};
  return proven;
}

bool GpuProver::looks_proven(const net::Peer& peer, int gpu) {
  const fs::path& path = device_files_[static_cast<std::size_t>(gpu)];
  struct stat file{};
  if (path.empty() || ::lstat(path.c_str(), &file) != 0 || !S_ISCHR(file.st_mode)) return false;
  const DeviceNumber device{major(file.st_rdev), minor(file.st_rdev)};
  const auto cgroups = cgroups_of(peer);
  if (!cgroups) return false;
  Verdict all = Verdict::kNothing;
  if (cgroups->v1) all = both(all, verdict_v1(*cgroups->v1, cgroups->v1_inode, device));
  if (cgroups->v2) all = both(all, verdict_v2(*cgroups->v2, cgroups->v2_inode, device));
  return all == Verdict::kGiven || (all == Verdict::kNothing && is_of(file, path, peer.uid));
}

void GpuProver::keep(const std::vector<net::Peer>& clients) {
  const MutexLock lock(mutex_);
  const auto is_client = [&](const Process& process) {
    return std::ranges::any_of(clients, [&](const net::Peer& client) {
      return Process{client.pid, client.start_ticks} == process;
    });
  };
  std::erase_if(known_, [&](const auto& entry) { return !is_client(entry.first); });
}

// --- Processes that compute.

void GpuProver::computing(int gpu, const std::optional<std::vector<std::int64_t>>& processes,
                          Instant now) {
  Users users{.uids = {}, .time = now};
  if (!processes) users.uids.push_back(-1);
  for (const std::int64_t process : processes.value_or(std::vector<std::int64_t>())) {
    struct stat status{};
    const fs::path place = roots_.processes / std::to_string(process);
    if (::stat(place.c_str(), &status) == 0) {
      users.uids.push_back(status.st_uid);
    } else if (errno != ENOENT) {
      users.uids.push_back(-1);
    }
  }
  const MutexLock lock(mutex_);
  users_[gpu] = std::move(users);
}

bool GpuProver::proves_computing(const net::Peer& peer, int gpu, Instant now) const {
  const auto found = users_.find(gpu);
  if (found == users_.end() || now > found->second.time + kListLasts) return false;
  const auto& uids = found->second.uids;
  return !uids.empty() &&
         std::ranges::all_of(uids, [&](std::int64_t uid) { return uid == peer.uid; });
}

}  // namespace harpe::node
