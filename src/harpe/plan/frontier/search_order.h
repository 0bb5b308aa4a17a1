#pragma once
/// \file
/// The arrays of a planning problem, ordered for the searches for plans.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harpe/plan/frontier/problem.h"

namespace harpe::plan {

/// An option (an index in its table) for every pipeline node.
using Assignment = std::vector<int>;

/// A time for every event, picoseconds.
using EventTimes = std::vector<std::int64_t>;

/// Random numbers that are the same on every machine: xorshift64 (Marsaglia 2003).
class SearchRandom {
 public:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }
  /// Returns a number of at least 0 and below 1.
  double fraction() { return static_cast<double>(next()) * 0x1p-53; }

 private:
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ >> 11;
  }
  std::uint64_t state_ = 0x9e3779b97f4a7c15ULL;
};

/// A problem laid out for passes along the pipeline in both directions. Refers to the problem.
class SearchOrder {
 public:
  /// An arc of the network, seen from one end.
  struct Arc {
    std::int32_t event;  ///< event at the other end
    std::int32_t node;   ///< pipeline node; -1 for a dependency
    std::int64_t lag;    ///< picoseconds, of a dependency; else 0
    std::int32_t network_arc;
    std::int32_t table;
  };

  explicit SearchOrder(const Problem& problem);

  const Problem& problem() const { return problem_; }
  /// Returns all events (network nodes) in topological order.
  std::span<const std::int32_t> order() const { return order_; }
  /// Returns the index of an event in `order`.
  std::int32_t place(std::int32_t event) const { return place_[event]; }
  std::span<const Arc> out(std::int32_t event) const { return row(first_out_, out_, event); }
  std::span<const Arc> in(std::int32_t event) const { return row(first_in_, in_, event); }
  /// Returns the times of the options of a table, picoseconds, rising. Their `costs` fall.
  std::span<const std::int64_t> times(std::int32_t table) const {
    return row(first_option_, times_, table);
  }
  /// Returns the same times in the network's nanoseconds, rounded down.
  std::span<const std::int64_t> nanoseconds(std::int32_t table) const {
    return row(first_option_, nanoseconds_, table);
  }
  std::span<const std::int64_t> costs(std::int32_t table) const {
    return row(first_option_, costs_, table);
  }
  /// Returns the cheapest option of a table that takes at most `room`, or the fastest if none does.
  int cheapest_within(std::int32_t table, std::int64_t room) const {
    return last_within(times(table), room);
  }
  /// Returns the index of the last of some rising times that is at most `room`, or 0 if none is.
  static int last_within(std::span<const std::int64_t> times, std::int64_t room);

  /// Returns the average cost that an instruction saves with its next slower option.
  double average_step() const;

  // The functions below are O(arcs). `time` must have the size for all events.
  /// Sets the earliest time of every event.
  void set_earliest(const Assignment& choice, EventTimes& time) const;
  /// Sets the latest time of every event with which the last event is at `deadline`.
  void set_latest(const Assignment& choice, std::int64_t deadline, EventTimes& time) const;
  /// Sets random feasible times between the earliest and the latest, in one of four ways. The last
  /// event is at its latest time.
  /// \param latest  the result of `set_latest`
  void scatter(const Assignment& choice, const EventTimes& latest, SearchRandom& random,
               EventTimes& time) const;
  /// Gives every instruction the cheapest option that fits between its events.
  /// \returns the total cost
  std::int64_t fit(const EventTimes& time, Assignment& choice) const;

 private:
  template <class T>
  static std::span<const T> row(const std::vector<std::int32_t>& first, const std::vector<T>& all,
                                std::int32_t i) {
    return {all.data() + first[i], all.data() + first[i + 1]};
  }
  const Problem& problem_;
  std::vector<std::int32_t> order_, place_, first_out_, first_in_, first_option_;
  std::vector<Arc> out_, in_;
  std::vector<std::int64_t> times_, nanoseconds_, costs_;
};

}  // namespace harpe::plan
