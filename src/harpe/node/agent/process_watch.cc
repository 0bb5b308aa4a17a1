#include "harpe/node/agent/process_watch.h"

#include <sys/syscall.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace harpe::node {

Result<ProcessWatch> ProcessWatch::open(const net::Peer& peer) {
  if (peer.pid <= 0) {
    return Error::of(ErrorCode::kNotSupported, "the peer is not a process of this machine");
  }
  const auto ended = [&] {
    return Error::of(ErrorCode::kNotFound,
                     "process " + std::to_string(peer.pid) + " has already ended");
  };
  UniqueFd descriptor(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
  if (!descriptor && errno == ESRCH) return ended();
  if (!descriptor) {
    return Error::of(ErrorCode::kNotSupported, "cannot watch process " + std::to_string(peer.pid) +
                                                   ": " + std::generic_category().message(errno));
  }
  // The opened process is the peer only if both have the same start time.
  if (peer.start_ticks == 0 || net::start_of_process(peer.pid) != peer.start_ticks) return ended();
  return ProcessWatch(std::move(descriptor));
}

}  // namespace harpe::node
