#pragma once
/// \file
/// When the process at the other end of a Unix socket ends: from the kernel alone.

#include <utility>

#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"
#include "harpe/net/service/peer.h"

namespace harpe::node {

/// Knows when one process ends, however it ends, and is not fooled when its number is used again.
/// Source: pidfd_open(2).
class ProcessWatch {
 public:
  /// Fails with `kNotFound` when the process of the peer has ended already, `kNotSupported` when
  /// the peer is no local process or the kernel cannot watch it.
  static Result<ProcessWatch> open(const net::Peer& peer);

  /// Becomes readable when the process ends.
  int descriptor() const { return descriptor_.get(); }

 private:
  explicit ProcessWatch(UniqueFd descriptor) : descriptor_(std::move(descriptor)) {}
  UniqueFd descriptor_;
};

}  // namespace harpe::node
