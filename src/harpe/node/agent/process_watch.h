#pragma once
/// \file
/// When the process at the other end of a Unix socket ends: from the kernel alone.

#include <utility>

#include "harpe/base/result.h"
#include "harpe/net/service/peer.h"

namespace harpe::node {

/// Knows when one process ends, however it ends, and is not fooled when its number is used again.
/// Source: pidfd_open(2).
class ProcessWatch {
 public:
  /// Fails with `kNotFound` when the process of the peer has ended already, `kNotSupported` when
  /// the peer is no local process or the kernel cannot watch it.
  static Result<ProcessWatch> open(const net::Peer& peer);

  ProcessWatch(ProcessWatch&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  ProcessWatch& operator=(ProcessWatch&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~ProcessWatch();

  /// Becomes readable when the process ends.
  int descriptor() const { return descriptor_; }

 private:
  explicit ProcessWatch(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace harpe::node
