#include "harpe/training/client/steady_knobs.h"

#include <cmath>
#include <utility>

namespace harpe {

std::uint64_t SteadyKnobs::word_of(const Knobs& knobs) noexcept {
  const auto milliwatts = static_cast<std::uint32_t>(std::lround(knobs.power_limit.value * 1000));
  return std::uint64_t{static_cast<std::uint32_t>(knobs.memory_clock.value)} << 32 | milliwatts;
}

Megahertz SteadyKnobs::clock_of(std::uint64_t word) {
  return {static_cast<int>(word >> 32)};
}

Watts SteadyKnobs::limit_of(std::uint64_t word) {
  return Watts{static_cast<double>(static_cast<std::uint32_t>(word)) / 1000};
}

Status SteadyKnobs::set(ClockChannel& channel, std::uint64_t wanted) {
  const Megahertz clock = clock_of(wanted);
  const Watts limit = limit_of(wanted);
  const auto note = [this](Megahertz clock_set, Watts limit_set) {
    in_force_ = word_of({.memory_clock = clock_set, .power_limit = limit_set});
  };
  if (clock != clock_of(in_force_)) {
    HARPE_TRY(channel.set_memory_clock(0, clock));
    note(clock, limit_of(in_force_));
  }
  if (limit != limit_of(in_force_)) {
    HARPE_TRY(channel.set_power_limit(0, limit));
    note(clock, limit);
  }
  return ok_status();
}

Status SteadyKnobs::apply(ClockChannel& channel, Instant now) {
  const std::uint64_t wanted = wanted_;
  if (wanted == in_force_ || (wanted == refused_ && now < retry_)) return ok_status();
  Status done = set(channel, wanted);
  if (done.ok()) {
    refused_ = kNone;
    return ok_status();
  }
  // Also where the channel failed: what it failed of is not tried at once on the next one.
  refusal_ = done.error().text();
  refused_ = wanted;
  retry_ = now + kRetry;
  if (std::exchange(told_, refusal_) != refusal_) {
    log_("the plan's memory clock or power limit is not set: " + refusal_ +
         "; training runs at all-max");
  }
  if (done.error().code != ErrorCode::kRefused) return done;
  Status undone = set(channel, 0);
  return undone.ok() || undone.error().code == ErrorCode::kRefused ? ok_status()
                                                                   : std::move(undone);
}

}  // namespace harpe
