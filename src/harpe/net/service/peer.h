#pragma once
/// \file
/// Identity of the other end of a connection, from the kernel and verified tokens only.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"

namespace harpe::net {

/// The client of a request, as reported by the kernel or a verified token, not by itself.
struct Peer {
  std::int64_t uid = -1;  ///< -1 if it is not a local process (TCP)
  std::int64_t pid = 0;   ///< 0 if unknown
  /// Start time of the process (field 22 of /proc/PID/stat, in ticks since the machine started),
  /// read when it connected. Distinguishes it from another process that later gets its pid. 0 if
  /// unknown.
  std::uint64_t start_ticks = 0;
  std::vector<std::int64_t> groups = {};
  std::string token_subject = {};        ///< of a verified token; empty if there is none
  std::vector<std::string> scopes = {};  ///< of the token
};

/// Returns the process that connected `socket`: user, all its groups, pid and start time. The
/// process may have ended since then (`start_ticks` is 0), even if another process has its pid by
/// now; kernels before 6.5 cannot distinguish the two.
Result<Peer> peer_of_socket(int socket);

/// Returns the start time of a process, in clock ticks since the machine started; nullopt if it
/// does not exist.
std::optional<std::uint64_t> start_of_process(std::int64_t pid);

}  // namespace harpe::net
