#pragma once
/// \file
/// A rate limit (token bucket): `burst` events at once, and `per_second` in the long run.

#include <algorithm>

#include "harpe/base/clock.h"

namespace harpe::node {

class RateLimit {
 public:
  RateLimit(double per_second, double burst)
      : per_second_(per_second), burst_(burst), left_(burst) {}

  /// Counts one event and returns true if it is within the limit; else returns false.
  bool take(Instant now) {
    left_ = left(now);
    last_ = std::max(last_, now);
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }
  /// Returns the time until the next event is allowed.
  Seconds wait(Instant now) const { return {std::max(0.0, (1 - left(now)) / per_second_)}; }
  /// Returns true if the full burst is available again.
  bool is_full(Instant now) const { return left(now) >= burst_; }

 private:
  double left(Instant now) const {
    return now <= last_ ? left_ : std::min(burst_, left_ + (now - last_).value * per_second_);
  }

  double per_second_, burst_, left_;
  Instant last_;
};

}  // namespace harpe::node
