#pragma once
/// \file
/// Detection of the end of the process at the other end of a Unix socket, by the kernel alone.

#include <utility>

#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"
#include "harpe/net/service/peer.h"

namespace harpe::node {

/// A watch on the end of one process, in any way. Reuse of the process id does not affect it.
/// Source: pidfd_open(2).
class ProcessWatch {
 public:
  /// Opens a watch on the process of the peer. Fails with `kNotFound` if the process has ended, and
  /// with `kNotSupported` if the peer is no local process or the kernel cannot watch it.
  static Result<ProcessWatch> open(const net::Peer& peer);

  /// Returns a descriptor that becomes readable when the process ends.
  int descriptor() const { return descriptor_.get(); }

 private:
  explicit ProcessWatch(UniqueFd descriptor) : descriptor_(std::move(descriptor)) {}
  UniqueFd descriptor_;
};

}  // namespace harpe::node
