#pragma once
/// \file
/// An open-ended local search for plans with profiled settings.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harpe/plan/frontier/event_beam.h"
#include "harpe/plan/frontier/search_order.h"

namespace harpe::plan {

/// Search that improves an assignment that ends by a deadline, window by window.
///
/// A window is a set of up to 40 neighbouring events: along a path, on a few stages in some time
/// interval, on all stages, or around an event. Beam search gives them new times, while all other
/// events keep their times. A new window is accepted if it loses little, with a tolerance that
/// falls (threshold accepting: Dueck and Scheuer 1990). The beam search compares partial answers
/// with random errors in proportion to the tolerance. Deterministic: the same calls give the same
/// assignment on every machine and with every compiler.
class WindowSearch {
 public:
  /// \param deadline  picoseconds
  /// \param start     an assignment that ends by the deadline
  WindowSearch(const ArcPrices& prices, std::int64_t deadline, Assignment start);

  /// Restarts from the best assignment with the largest tolerance, which falls to nearly 0 over the
  /// next `windows` calls of `step`.
  void begin(std::int64_t windows);
  /// Tries one window. O(window), but O(events log events) in one of 50 calls, and O(events) if the
  /// best assignment changes.
  void step();
  /// Sets the best assignment to another one that ends by the deadline, if that is better.
  void offer(const Assignment& other);

  const Assignment& best() const { return best_; }
  std::int64_t best_cost() const { return best_cost_; }

 private:
  using Arc = SearchOrder::Arc;

  std::int64_t cost_of(const Assignment& choice) const;
  void scatter();
  void choose_window();
  void add(std::int32_t event);
  void add_ball(std::size_t size);
  void add_path(std::size_t size);
  void add_band(std::size_t size, int first_stage, int last_stage);
  void retime();
  void settle(const Arc& arc, std::int64_t duration);
  bool is_fixed(std::int32_t event) const;

  const SearchOrder& layout_;
  const Problem& problem_;
  std::int64_t deadline_;
  EventBeam beam_;
  SearchRandom random_;
  std::vector<int> stage_;  // stage of each event
  double average_step_ = 0;

  Assignment choice_, best_;
  std::int64_t cost_ = 0, best_cost_ = 0;
  EventTimes time_, latest_;
  std::vector<std::int32_t> by_time_, rank_;  // events ordered at the last `scatter`; the inverse
  std::int64_t windows_ = 1, tried_ = 0;
  double tolerance_ = 0;
  std::vector<std::int32_t> window_;
  std::vector<char> is_inside_;  // per event
};

}  // namespace harpe::plan
