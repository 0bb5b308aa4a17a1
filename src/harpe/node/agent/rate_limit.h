#pragma once
/// \file
/// How often something may happen: `burst` times at once, and `per_second` in the long run.

#include <algorithm>

#include "harpe/base/clock.h"

namespace harpe::node {

class RateLimit {
 public:
  RateLimit(double per_second, double burst)
      : per_second_(per_second), burst_(burst), left_(burst) {}

  /// Whether it may happen once more; then it counts.
  bool take(Instant now) {
    left_ = left(now);
    last_ = std::max(last_, now);
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }
  /// Until it may happen again.
  Seconds wait(Instant now) const { return {std::max(0.0, (1 - left(now)) / per_second_)}; }
  /// Whether it is as if it had never happened.
  bool is_full(Instant now) const { return left(now) >= burst_; }

 private:
  double left(Instant now) const {
    return now <= last_ ? left_ : std::min(burst_, left_ + (now - last_).value * per_second_);
  }

  double per_second_, burst_, left_;
  Instant last_;
};

}  // namespace harpe::node
