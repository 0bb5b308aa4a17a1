#pragma once
/// \file
/// What training tells on its way, handed from its thread to another one without waiting.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"
#include "harpe/instruction/instruction.h"

namespace harpe {

struct RankEvent {
  enum class Kind : std::uint8_t {
    kIterationBegin,  ///< `number`: the iteration; `version`: of the orders that hold in it
    kIterationEnd,
    kInstructionBegin,  ///< `number`: position in the stage's list, -1 where it is not in it
    kInstructionEnd,
  };
  Instant at{};
  std::int64_t number = 0;
  std::uint64_t version = 0;
  Megahertz clock{}, next_clock{};  ///< of an instruction that begins, and of the one after it
  std::uint32_t step = 0;           ///< of `WantedClock`, likewise
  Kind kind = Kind::kIterationBegin;
  InstructionKind instruction = InstructionKind::kForward;
  std::uint16_t chunk = 0;
};

/// A ring for one thread that writes and one that reads. Neither waits, allocates or calls the
/// system. A full ring loses what is written, and counts it.
class EventRing {
 public:
  static constexpr std::size_t kCapacity = std::size_t{1} << 14;

  bool push(const RankEvent& event) noexcept {
    const std::uint64_t at = written_.load(std::memory_order_relaxed);
    if (at - read_seen_ >= kCapacity) {
      read_seen_ = read_.load(std::memory_order_acquire);
      if (at - read_seen_ >= kCapacity) {
        lost_.store(lost_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return false;
      }
    }
    (*events_)[at % kCapacity] = event;
    written_.store(at + 1, std::memory_order_release);
    return true;
  }

  bool pop(RankEvent& event) noexcept {
    const std::uint64_t at = read_.load(std::memory_order_relaxed);
    if (at == written_.load(std::memory_order_acquire)) return false;
    event = (*events_)[at % kCapacity];
    read_.store(at + 1, std::memory_order_release);
    return true;
  }

  std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

 private:
  using Events = std::array<RankEvent, kCapacity>;
  std::unique_ptr<Events> events_ = std::make_unique<Events>();
  alignas(64) std::atomic<std::uint64_t> written_ = 0;
  std::uint64_t read_seen_ = 0;  ///< by the writer
  std::atomic<std::uint64_t> lost_ = 0;
  alignas(64) std::atomic<std::uint64_t> read_ = 0;
};

}  // namespace harpe
