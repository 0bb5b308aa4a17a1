#pragma once
/// \file
/// A value that users change by requests, and the set of its possible values. Each change takes
/// effect at some moment between its request and its response. Without a response, or with one that
/// leaves this open, it may take effect later.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "harpe/base/clock.h"

namespace harpe::simulation {

class AskedValue {
 public:
  /// The longest delay, after its client gave up, of a request that was sent when a fault began.
  static constexpr Seconds kLongestTrouble{100};

  explicit AskedValue(double first) : asked_{{.value = first, .at = kBefore, .done = kBefore}} {}

  /// \returns  the number for `answered`
  std::size_t ask(double value, Instant now) {
    asked_.push_back({.value = value, .at = now});
    return asked_.size() - 1;
  }
  void answered(std::size_t number, bool is_done, Instant now) {
    Ask& one = asked_[number];
    one.is_acknowledged = is_done;
    one.done = is_done ? now : now + kLongestTrouble;
  }

  /// Returns whether the value may have been in force at any time from `begin` to `end`.
  bool may_be(double value, Instant begin, Instant end) const {
    return std::ranges::any_of(asked_, [&](const Ask& one) {
      return one.value == value && one.at <= end && !is_replaced(one, begin);
    });
  }
  /// Returns the largest possible value.
  double most(Instant now) const {
    double most = -std::numeric_limits<double>::infinity();
    for (const Ask& one : asked_) {
      if (!is_replaced(one, now)) most = std::max(most, one.value);
    }
    return most;
  }

 private:
  static constexpr Instant kBefore{std::numeric_limits<std::int64_t>::min()};
  static constexpr Instant kLater{std::numeric_limits<std::int64_t>::max()};
  struct Ask {
    double value = 0;
    Instant at{};
    Instant done = kLater;  ///< the latest time at which it took effect
    bool is_acknowledged = false;
  };
  /// Returns whether a later request, sent after it took effect, was acknowledged by `by`.
  bool is_replaced(const Ask& one, Instant by) const {
    return std::ranges::any_of(asked_, [&](const Ask& other) {
      return other.is_acknowledged && other.done <= by && other.at >= one.done;
    });
  }

  std::vector<Ask> asked_;
};

}  // namespace harpe::simulation
