#pragma once
/// \file
/// Who is at the other end of a Unix socket, and when its process ends: from the kernel alone.

#include <cstdint>
#include <optional>
#include <utility>

#include "harpe/agent/policy.h"
#include "harpe/base/result.h"

namespace harpe {

/// The process that connected `socket`: user, all its groups, number and start time. The process
/// may have ended since (`start_ticks` is 0 then).
Result<Peer> peer_of_socket(int socket);

/// When a process started, in clock ticks since the machine started; nullopt when there is none.
std::optional<std::uint64_t> start_of_process(std::int64_t pid);

/// Knows when one process ends, however it ends, and is not fooled when its number is used again.
/// Source: pidfd_open(2).
class ProcessWatch {
 public:
  /// Fails with `kNotFound` when the process of the peer has ended already, `kNotSupported` when
  /// the peer is no local process or the kernel cannot watch it.
  static Result<ProcessWatch> open(const Peer& peer);

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

}  // namespace harpe
