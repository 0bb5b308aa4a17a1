#pragma once
/// \file
/// The events that training reports, and the queue that passes them to another thread.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"
#include "harpe/plan/instruction/instruction.h"

namespace harpe::training {

/// A ring buffer between one writing and one reading thread. Neither thread waits, allocates or
/// makes a system call. A full ring drops new items and counts them.
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
  std::uint64_t read_seen_ = 0;  ///< last value of `read_` seen by the writer
  std::atomic<std::uint64_t> lost_ = 0;
  alignas(64) std::atomic<std::uint64_t> read_ = 0;
};

struct RankEvent {
  enum class Kind : std::uint8_t {
    kIterationBegin,  ///< `number`: the iteration; `version`: of the assignment in force in it
    kIterationEnd,
    kInstructionBegin,  ///< `number`: position in the stage's list, -1 if it is not in the list
    kInstructionEnd,
    kPause,  ///< no iteration runs until the next one begins
  };
  Instant at{};
  std::int64_t number = 0;
  std::uint64_t version = 0;
  Megahertz clock{}, next_clock{};  ///< of an instruction that begins, and of the next one
  std::uint32_t step = 0;           ///< of `WantedClock`, when an instruction begins
  Kind kind = Kind::kIterationBegin;
  InstructionKind instruction = InstructionKind::kForward;
  std::uint16_t chunk = 0;
};

/// Events from the training thread to the pacer's thread.
using RankEventQueue = SpscQueue<RankEvent, std::size_t{1} << 14>;

}  // namespace harpe::training
