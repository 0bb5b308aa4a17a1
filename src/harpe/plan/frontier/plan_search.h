#pragma once
/// \file
/// Plans of real clocks next to the relaxed frontier.

#include <cstdint>
#include <span>
#include <vector>

#include "harpe/plan/flow/network.h"
#include "harpe/plan/frontier/search_order.h"

namespace harpe::plan {

/// An assignment at the time it takes by itself.
struct Milestone {
  std::int64_t time = 0;  ///< makespan, picoseconds
  std::int64_t cost = 0;
  Assignment choice;
};

/// Searches assignments that end by a deadline for the least effective energy. Deterministic: the
/// same input gives the same assignment on every machine and with every compiler.
///
/// Most of the work is done by a decoder that turns the relaxed optimum into an assignment in three
/// passes along the pipeline. The gap of an assignment is the sum of what its options lose against
/// the prices of the relaxed optimum (its flow), and of time left unused at those prices. The
/// decoder therefore gives every instruction, within the time it has until its relaxed end, the
/// option that is best when time left over is worth a share of its price, because what follows can
/// use it; and the passes after that hand out what was left over after all. The search is over
/// those shares, one for each table. It does poorly between two deadlines at which all stages can
/// keep in step at real clocks; there the plans for these two, spliced, do better. Then kicks
/// change a few instructions at random.
class PlanSearch {
 public:
  /// \param deadline  picoseconds, not below the makespan of the fastest options.
  PlanSearch(const SearchOrder& layout, std::int64_t deadline);

  /// Tries `trials` decodings of a relaxed optimum at or before the deadline and keeps the best
  /// assignment so far.
  /// \param known  shares that did well nearby, to try first; empty: none
  /// \returns the shares that did best
  std::vector<double> decode(std::span<const flow::State> relaxed, int trials,
                             std::span<const double> known = {});

  /// Takes up an assignment that may end after the deadline, made to end by it.
  void offer(const Assignment& choice);

  /// Decodes a relaxed optimum at one share for all tables, to end when it ends by itself.
  Milestone decode_freely(const flow::State& relaxed, double share);

  /// Joins a slower assignment to a faster one: one is followed in the first part of the pipeline,
  /// the other in the rest, so that the whole ends by the deadline, which must lie between their
  /// times.
  void splice(const Milestone& fast, const Milestone& slow);

  /// Tries `kicks` random changes of up to three instructions, each followed by handing the slack
  /// out anew.
  void kick(int kicks);

  const Assignment& best() const { return best_; }
  /// The best at the time it takes by itself.
  Milestone best_milestone() { return {makespan(best_), best_cost_, best_}; }
  /// When an assignment ends, picoseconds. O(arcs).
  std::int64_t makespan(const Assignment& choice);

 private:
  void set_prices(const flow::State& relaxed, std::span<const double> shares);
  int best_up_to(std::int32_t table, int last, double price) const;
  void round(const flow::State& relaxed);
  void use_slack_at_prices();
  void use_slack_forwards();
  void use_slack_backwards();
  void hand_out_slack(bool backwards_first);
  void shift_choice(std::size_t node, int step);
  void kick_few();
  void kick_band();
  void keep_if_better();

  const SearchOrder& layout_;
  const Problem& problem_;
  std::int64_t deadline_;
  SearchRandom random_;
  EventTimes time_, latest_, other_time_;
  Assignment choice_, best_;
  std::vector<double> price_;  // of a picosecond of each node, in cost units
  std::int64_t cost_ = 0;
  std::int64_t best_cost_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace harpe::plan
