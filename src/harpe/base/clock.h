#pragma once
/// \file
/// A monotonic clock, and a clock that tests can set.
///
///   harpe::ManualClock clock;  // or harpe::system_clock(), hw/system_clock.h
///   const harpe::Instant begin = clock.now();
///   clock.sleep_until(begin + harpe::Seconds{0.5});
///   const harpe::Seconds passed = clock.now() - begin;

#include <compare>
#include <cstdint>

#include "harpe/base/units.h"

namespace harpe {

/// A point in time: nanoseconds since an arbitrary start, which all processes of a machine share
/// until it restarts.
struct Instant {
  std::int64_t ns = 0;
  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr Seconds operator-(Instant a, Instant b) {
    return {static_cast<double>(a.ns - b.ns) * 1e-9};
  }
  friend constexpr Instant operator+(Instant a, Seconds b) {
    return {a.ns + static_cast<std::int64_t>(b.value * 1e9)};
  }
};

/// A source of time. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const = 0;
  /// Returns once `now() >= until`.
  virtual void sleep_until(Instant until) = 0;
};

/// A clock that advances only when it is set. Not thread-safe.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Instant start = {}) : now_(start) {}
  Instant now() const override { return now_; }
  void sleep_until(Instant until) override { now_ = until > now_ ? until : now_; }
  void advance(Seconds by) { now_ = now_ + by; }

 private:
  Instant now_;
};

}  // namespace harpe
