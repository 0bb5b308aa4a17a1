#pragma once
/// \file
/// A search for plans of real clocks that goes on for as long as it is let.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harpe/plan/frontier/event_beam.h"
#include "harpe/plan/frontier/search_order.h"

namespace harpe::plan {

/// Improves an assignment that ends by a deadline, window by window.
///
/// A window is a set of up to some dozen events near each other: along a path, on a few stages for
/// a while, on all stages, or around an event. They get new times by beam search, while all others
/// stay when they are. Windows are accepted when they lose little, less and less so (threshold
/// accepting: Dueck and Scheuer 1990), and partial answers are compared as roughly.
/// Deterministic: the same calls give the same assignment on every machine and with every compiler.
class WindowSearch {
 public:
  /// \param deadline  picoseconds
  /// \param start     an assignment that ends by the deadline
  WindowSearch(const ArcPrices& prices, std::int64_t deadline, Assignment start);

  /// Starts to tolerate losses again: the next `windows` calls of `step` go from the most to none,
  /// beginning at the best assignment.
  void begin(std::int64_t windows);
  /// Tries one window. O(events) where the best assignment changes and now and then, else
  /// O(window).
  void step();
  /// Takes up another assignment that ends by the deadline, if it is better.
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
  std::vector<int> stage_;  // of each event
  double average_step_ = 0;

  Assignment choice_, best_;
  std::int64_t cost_ = 0, best_cost_ = 0;
  EventTimes time_, latest_;
  std::vector<std::int32_t> by_time_, rank_;  // events as at the last `scatter`, and back
  std::int64_t windows_ = 1, tried_ = 0;
  double tolerance_ = 0;
  std::vector<std::int32_t> window_;
  std::vector<char> is_inside_;  // of each event
};

}  // namespace harpe::plan
