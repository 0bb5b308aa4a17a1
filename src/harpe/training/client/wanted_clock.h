#pragma once
/// \file
/// The wanted clock of one GPU, which two threads set: training, when an instruction begins or
/// ends, and a timer, a little earlier.
///
/// Training counts its steps. The timer sets the clock for one step. If training has taken another
/// step by then, the timer changes nothing: a late timer never sets a wrong clock. A thread that
/// has sent a clock to the agent reads the wanted clock again afterwards, so that the last clock
/// sent is the newest.

#include <atomic>
#include <cstdint>

#include "harpe/base/units.h"

namespace harpe::training {

/// Thread-safe; never waits. `tell(Megahertz)` sends the clock to the agent; 0 unlocks it.
class WantedClock {
 public:
  static constexpr Megahertz kAsItIs{-1};  ///< no clock is wanted yet

  /// Takes training's next step and sets its clock (`kAsItIs`: any). Returns true if the clock has
  /// changed, and was sent.
  template <class Tell>
  bool step(Megahertz clock, const Tell& tell) noexcept {
    std::uint64_t before = word_.load(std::memory_order_relaxed);
    std::uint64_t after = 0;
    do {
      const Megahertz wanted = clock == kAsItIs ? clock_of(before) : clock;
      after = word_of(step_of(before) + 1, wanted);
    } while (!word_.compare_exchange_weak(before, after));
    if (clock_of(before) == clock_of(after)) return false;
    tell_newest(after, tell);
    return true;
  }

  /// Sets the timer's clock for the step after `step`, ahead of it. Returns true if it was sent.
  template <class Tell>
  bool ahead(std::uint32_t step, Megahertz clock, const Tell& tell) noexcept {
    std::uint64_t before = word_.load();
    if (step_of(before) != step || clock == kAsItIs || clock_of(before) == clock) return false;
    const std::uint64_t after = word_of(step, clock);
    if (!word_.compare_exchange_strong(before, after)) return false;
    tell_newest(after, tell);
    return true;
  }

  /// Sends the wanted clock, if any, to a new agent.
  template <class Tell>
  void repeat(const Tell& tell) noexcept {
    tell_newest(word_.load(), tell);
  }

  std::uint32_t steps() const noexcept { return step_of(word_.load(std::memory_order_relaxed)); }
  Megahertz clock() const noexcept { return clock_of(word_.load(std::memory_order_relaxed)); }

 private:
  static std::uint64_t word_of(std::uint32_t step, Megahertz clock) {
    return std::uint64_t{step} << 32 | static_cast<std::uint32_t>(clock.value);
  }
  static std::uint32_t step_of(std::uint64_t word) {
    return static_cast<std::uint32_t>(word >> 32);
  }
  static Megahertz clock_of(std::uint64_t word) {
    return {static_cast<int>(static_cast<std::uint32_t>(word))};
  }
  template <class Tell>
  void tell_newest(std::uint64_t word, const Tell& tell) noexcept {
    for (;;) {
      if (clock_of(word) != kAsItIs) tell(clock_of(word));
      const std::uint64_t now = word_.load();
      if (clock_of(now) == clock_of(word)) return;
      word = now;
    }
  }

  std::atomic<std::uint64_t> word_ = word_of(0, kAsItIs);
};

}  // namespace harpe::training
