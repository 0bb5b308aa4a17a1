#pragma once
/// \file
/// A value that people ask to change, and what it may be: each change happens at some moment
/// between its question and its response. Where there is no response, or none that says whether it
/// is done, it may happen later still.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "harpe/base/clock.h"

namespace harpe::simulation {

class AskedValue {
 public:
  /// What is on its way when something breaks may arrive as late as this after people gave up.
  static constexpr Seconds kLongestTrouble{100};

  explicit AskedValue(double first) : asked_{{.value = first, .at = kBefore, .done = kBefore}} {}

  /// \returns  for `answered`
  std::size_t ask(double value, Instant now) {
    asked_.push_back({.value = value, .at = now});
    return asked_.size() - 1;
  }
  void answered(std::size_t number, bool is_done, Instant now) {
    Ask& one = asked_[number];
    one.is_acknowledged = is_done;
    one.done = is_done ? now : now + kLongestTrouble;
  }

  /// Whether somewhere from `begin` to `end` it may have been that.
  bool may_be(double value, Instant begin, Instant end) const {
    return std::ranges::any_of(asked_, [&](const Ask& one) {
      return one.value == value && one.at <= end && !is_replaced(one, begin);
    });
  }
  /// The largest that it may be.
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
    Instant done = kLater;  ///< the latest at which it can have happened
    bool is_acknowledged = false;
  };
  /// Whether another one was asked for after it had happened, and acknowledged by then.
  bool is_replaced(const Ask& one, Instant by) const {
    return std::ranges::any_of(asked_, [&](const Ask& other) {
      return other.is_acknowledged && other.done <= by && other.at >= one.done;
    });
  }

  std::vector<Ask> asked_;
};

}  // namespace harpe::simulation
