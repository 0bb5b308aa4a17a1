#pragma once
/// \file
/// Plans of real clocks next to the relaxed frontier.

#include <cstdint>
#include <span>
#include <vector>

#include "harpe/flow/binary_cut.h"
#include "harpe/frontier/problem.h"

namespace harpe {

/// One option (an index into its table) for every pipeline node.
using Assignment = std::vector<int>;

/// A problem laid out for passes along the pipeline and against it. Refers to the problem.
class PlanLayout {
 public:
  /// An arc of the network, seen from one end.
  struct Arc {
    std::int32_t event;  ///< at the other end
    std::int32_t node;   ///< pipeline node, or -1 for an arc that only waits
    std::int64_t lag;    ///< picoseconds, of an arc that only waits
    std::int32_t network_arc;
    std::int32_t table;
  };

  explicit PlanLayout(const Problem& problem);

  const Problem& problem() const { return problem_; }
  /// All events (network nodes), each after everything it waits for.
  std::span<const std::int32_t> order() const { return order_; }
  std::span<const Arc> out(std::int32_t event) const { return row(first_out_, out_, event); }
  std::span<const Arc> in(std::int32_t event) const { return row(first_in_, in_, event); }
  /// Times of the options of a table (picoseconds, rising) and their costs (falling).
  std::span<const std::int64_t> times(std::int32_t table) const {
    return row(first_option_, times_, table);
  }
  /// The same times in the network's nanoseconds, rounded down.
  std::span<const std::int64_t> nanoseconds(std::int32_t table) const {
    return row(first_option_, nanoseconds_, table);
  }
  std::span<const std::int64_t> costs(std::int32_t table) const {
    return row(first_option_, costs_, table);
  }

 private:
  template <class T>
  static std::span<const T> row(const std::vector<std::int32_t>& first, const std::vector<T>& all,
                                std::int32_t i) {
    return {all.data() + first[i], all.data() + first[i + 1]};
  }
  const Problem& problem_;
  std::vector<std::int32_t> order_, first_out_, first_in_, first_option_;
  std::vector<Arc> out_, in_;
  std::vector<std::int64_t> times_, nanoseconds_, costs_;
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
/// those shares, one for each table. Then jumps shift subsets of events by one amount, each the
/// best of all subsets, found as a minimum cut.
class PlanSearch {
 public:
  /// \param deadline  picoseconds, not below the makespan of the fastest options.
  PlanSearch(const PlanLayout& layout, std::int64_t deadline);

  /// Tries `trials` decodings of a relaxed optimum at or before the deadline and keeps the best
  /// assignment so far.
  void decode(const flow::State& relaxed, int trials);

  /// Tries `kicks` random changes of up to three instructions, each followed by handing the slack
  /// out anew.
  void kick(int kicks);

  /// Tries `jumps` jumps from the best assignment.
  void jump(int jumps);

  const Assignment& best() const { return best_; }
  /// Effective energy of the best assignment, in `Problem::cost_unit`.
  std::int64_t best_cost() const { return best_cost_; }

 private:
  std::uint64_t random();
  std::size_t random_below(std::size_t n) { return static_cast<std::size_t>(random() % n); }
  void set_prices(const flow::State& relaxed, std::span<const double> shares);
  int best_up_to(std::int32_t table, int last, double price) const;
  void round(const flow::State& relaxed);
  void use_slack_at_prices();
  void use_slack_forwards();
  void use_slack_backwards();
  void hand_out_slack(bool backwards_first);
  void set_earliest();
  void set_latest();
  void scatter();
  void fit();
  std::int64_t random_shift();
  void keep_if_better();
  int cheapest_within(std::int32_t table, std::int64_t time) const;

  const PlanLayout& layout_;
  const Problem& problem_;
  std::int64_t deadline_;
  std::uint64_t random_state_ = 0x9e3779b97f4a7c15ULL;
  std::vector<std::int64_t> time_, latest_;  // of each event
  Assignment choice_, best_;
  std::vector<double> price_;  // of a picosecond of each node, in cost units
  std::int64_t cost_ = 0;
  std::int64_t best_cost_ = std::numeric_limits<std::int64_t>::max();
};

/// The assignment for a deadline: `decode` and `jump` with the effort asked for. `relaxed` is the
/// relaxed optimum there.
Assignment search_plan(const PlanLayout& layout, std::int64_t deadline, const flow::State& relaxed,
                       Effort effort);

}  // namespace harpe
