#pragma once
/// \file
/// Handing things from one thread to another one without waiting.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace harpe {

/// A ring for one thread that writes and one that reads. Neither waits, allocates or calls the
/// system. A full ring loses what is written, and counts it.
template <class T, std::size_t Capacity>
class SpscQueue {
 public:
  static constexpr std::size_t kCapacity = Capacity;

  bool push(const T& one) noexcept {
    const std::uint64_t at = written_.load(std::memory_order_relaxed);
    if (at - read_seen_ >= kCapacity) {
      read_seen_ = read_.load(std::memory_order_acquire);
      if (at - read_seen_ >= kCapacity) {
        lost_.store(lost_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return false;
      }
    }
    (*items_)[at % kCapacity] = one;
    written_.store(at + 1, std::memory_order_release);
    return true;
  }

  bool pop(T& one) noexcept {
    const std::uint64_t at = read_.load(std::memory_order_relaxed);
    if (at == written_.load(std::memory_order_acquire)) return false;
    one = (*items_)[at % kCapacity];
    read_.store(at + 1, std::memory_order_release);
    return true;
  }

  std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

 private:
  using Items = std::array<T, kCapacity>;
  std::unique_ptr<Items> items_ = std::make_unique<Items>();
  alignas(64) std::atomic<std::uint64_t> written_ = 0;
  std::uint64_t read_seen_ = 0;  ///< by the writer
  std::atomic<std::uint64_t> lost_ = 0;
  alignas(64) std::atomic<std::uint64_t> read_ = 0;
};

}  // namespace harpe
