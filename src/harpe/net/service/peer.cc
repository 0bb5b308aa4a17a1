#include "harpe/net/service/peer.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "harpe/base/file.h"
#include "harpe/base/text.h"
#include "harpe/base/unique_fd.h"

namespace harpe::net {
namespace {

Error failure(const char* what, int error) {
  return Error::of(ErrorCode::kUnavailable,
                   std::string(what) + ": " + std::generic_category().message(error));
}

/// SO_PEERPIDFD (Linux 6.5): the process that connected, even if its number was reused.
constexpr int kPeerPidFd = 77;

/// Returns the start time of the process that connected; 0 if it has ended. Without SO_PEERPIDFD in
/// the kernel, the number of the process is trusted.
std::uint64_t start_of_peer(int socket, std::int64_t pid) {
  int descriptor = -1;
  socklen_t size = sizeof descriptor;
  const bool named = ::getsockopt(socket, SOL_SOCKET, kPeerPidFd, &descriptor, &size) == 0;
  if (!named && errno != ENOPROTOOPT) return 0;
  const UniqueFd process(named ? descriptor : -1);
  const std::uint64_t start = start_of_process(pid).value_or(0);
  // A process that still runs has kept its number during the look-up. `poll` skips a negative
  // descriptor.
  pollfd ended{process.get(), POLLIN, 0};
  return ::poll(&ended, 1, 0) == 0 ? start : 0;
}

}  // namespace

std::optional<std::uint64_t> start_of_process(std::int64_t pid) {
  if (pid <= 0) return std::nullopt;
  const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat", 1 << 16);
  if (!stat.ok()) return std::nullopt;
  // The second field is the program's name in parentheses, which can contain any character.
  const std::size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::string_view rest = std::string_view(*stat).substr(name_end + 1);
  constexpr int kFieldsBetween = 20;  // of 3 to 22
  for (int field = 0; field < kFieldsBetween; ++field) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(space + 1);
  }
  const auto start = parse_integer(rest.substr(0, rest.find(' ')));
  if (!start || *start < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*start);
}

Result<Peer> peer_of_socket(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return failure("cannot identify the connected process", errno);
  }
  Peer peer;
  peer.uid = credentials.uid;
  peer.pid = credentials.pid;
  peer.groups.push_back(credentials.gid);
  std::vector<gid_t> groups(64);
  for (;;) {
    size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) == 0) break;
    // The kernel returned the number of groups.
    if (errno != ERANGE || size / sizeof(gid_t) <= groups.size()) {
      return failure("cannot read the groups of the connected process", errno);
    }
    groups.resize(size / sizeof(gid_t));
  }
  groups.resize(size / sizeof(gid_t));
  peer.groups.insert(peer.groups.end(), groups.begin(), groups.end());
  peer.start_ticks = start_of_peer(socket, peer.pid);
  return peer;
}

}  // namespace harpe::net
