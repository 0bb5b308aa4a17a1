#pragma once
/// \file
/// Search for plans with profiled settings close to the relaxed frontier.

#include <cstdint>
#include <span>
#include <vector>

#include "harpe/plan/flow/network.h"
#include "harpe/plan/frontier/search_order.h"

namespace harpe::plan {

/// An assignment with its own makespan and cost.
struct Milestone {
  std::int64_t time = 0;  ///< makespan, picoseconds
  std::int64_t cost = 0;
  Assignment choice;
};

/// Search for the assignment of least effective energy that ends by a deadline. Deterministic: the
/// same input gives the same assignment on every machine and with every compiler.
///
/// A decoder does most of the work: it turns the relaxed optimum into an assignment in three passes
/// along the pipeline. The gap of an assignment is the sum of the losses of its options at the
/// prices of the relaxed optimum (its flow) and of the unused time at those prices. The decoder
/// gives every instruction the best option that ends by its relaxed end. It values the remaining
/// time at a share of its price, because the next instructions can use it. The passes after that
/// distribute the remaining slack. The search varies these shares, one per table. It does poorly
/// between two deadlines at which all stages can keep in step at profiled settings; there, splicing
/// the plans for the two deadlines does better. Finally, random kicks change some instructions.
class PlanSearch {
 public:
  /// \param deadline  picoseconds, not below the makespan of the fastest options
  PlanSearch(const SearchOrder& layout, std::int64_t deadline);

  /// Tries `trials` decodings of relaxed optima at or before the deadline and keeps the best
  /// assignment so far.
  /// \param known  good shares of a nearby deadline, to try early; may be empty
  /// \returns the best shares
  std::vector<double> decode(std::span<const flow::State> relaxed, int trials,
                             std::span<const double> known = {});

  /// Adjusts an assignment, which may end after the deadline, so that it ends by the deadline, and
  /// keeps it if it is the best so far.
  void offer(const Assignment& choice);

  /// Decodes a relaxed optimum with one share for all tables and its own makespan as the deadline.
  /// Changes the deadline of the search.
  Milestone decode_freely(const flow::State& relaxed, double share);

  /// Joins a slower and a faster assignment: uses one in the first part of the iteration and the
  /// other in the rest. The result ends by the deadline, which must lie between their times.
  void splice(const Milestone& fast, const Milestone& slow);

  /// Tries `kicks` random changes: of one to three instructions, or of the instructions of a range
  /// of micro-batches. Redistributes the slack after each.
  void kick(int kicks);

  const Assignment& best() const { return best_; }
  /// Returns the best assignment with its own makespan.
  Milestone best_milestone() { return {makespan(best_), best_cost_, best_}; }
  /// Returns the makespan of an assignment, picoseconds. O(arcs).
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
  std::vector<double> price_;  // price of a picosecond of each node, in cost units
  std::int64_t cost_ = 0;
  std::int64_t best_cost_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace harpe::plan
