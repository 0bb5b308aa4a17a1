#pragma once
/// \file
/// Who is at the other end of a connection: from the kernel and verified tokens alone.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"

namespace harpe::net {

/// Who is asking, as the kernel or a verified token says; never as the client says.
struct Peer {
  std::int64_t uid = -1;  ///< -1: no local process (TCP)
  std::int64_t pid = 0;   ///< 0: unknown
  /// When the process started (field 22 of /proc/PID/stat, in ticks since the machine started),
  /// read when it connected; tells it from another process that got its number. 0: unknown.
  std::uint64_t start_ticks = 0;
  std::vector<std::int64_t> groups = {};
  std::string token_subject = {};        ///< of a verified token; empty: none
  std::vector<std::string> scopes = {};  ///< of the token
};

/// The process that connected `socket`: user, all its groups, number and start time. The process
/// may have ended since (`start_ticks` is 0 then), also where another has its number already;
/// kernels before 6.5 cannot tell those apart.
Result<Peer> peer_of_socket(int socket);

/// When a process started, in clock ticks since the machine started; nullopt when there is none.
std::optional<std::uint64_t> start_of_process(std::int64_t pid);

}  // namespace harpe::net
