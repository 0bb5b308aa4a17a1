#pragma once
/// \file
/// The cheapest settings of one stage at given prices of time, with late settings.

#include <cstddef>
#include <span>
#include <vector>

#include "harpe/plan/frontier/late_costs.h"

namespace harpe::plan {

/// The search for the least sum of cost plus price times time over one round of a stage: its list,
/// whose last computation precedes its first. The search tries only settings of a computation near
/// its best one, because no other setting can be in the best round. O(list x settings^2) in the
/// worst case, and a few times that if the best open list does not end with the setting before its
/// first computation; times the number of instructions that a change spans.
///
/// A change that is longer than its instruction counts in the next instructions
/// (`LateCosts::carried`), up to the end of the list or to the next change. Later effects do not
/// count, so that the sum is a lower bound of the sum in a plan.
class LateRound {
 public:
  /// The instructions in which a long change counts: all that it spans, or only its own. `kFirst`
  /// proves less and takes a fraction of the time.
  enum class Late : unsigned char { kAll, kFirst };
  explicit LateRound(const LateCosts& costs, Late late = Late::kAll) : costs_(costs), late_(late) {}

  /// Finds the cheapest settings of a stage.
  /// \param price    price of a second, W, one per node of the pipeline
  /// \param longest  seconds, one per node: longer choices are left out
  /// \param setting  output: the setting of each node of the stage, an index in its `settings`
  /// \returns  joules; `LateCosts::kNever` if no choice is left
  double cheapest(int stage, std::span<const double> price, std::span<const double> longest,
                  std::vector<int>& setting);
  /// Does the same with any setting before the first computation, instead of the setting of the
  /// last. Returns at most the value of `cheapest`, and less by at most the cost of one late
  /// change. O(list x settings^2)
  double cheapest_open(int stage, std::span<const double> price, std::span<const double> longest,
                       std::vector<int>& setting);

 private:
  /// Settings of a computation that can be in the best round: from `first` to before `end`.
  struct Range {
    std::size_t first = 0, end = 0;
  };
  /// The origin of a state after some computations: the change that computation `change` requested,
  /// after setting `before`; or if `change` is -1, the same setting already in force.
  struct Origin {
    int change = -1, before = -1;
  };
  Range range_of(const LateCosts::Stage& stage, std::size_t k, std::span<const double> price,
                 std::span<const double> longest) const;
  std::size_t reach(const LateCosts::Stage& stage, std::size_t k) const;
  bool fits_around(const LateCosts::Stage& stage, std::size_t k, std::size_t best,
                   std::span<const double> longest) const;
  void set_ranges(const LateCosts::Stage& stage, std::span<const double> price,
                  std::span<const double> longest);
  void run(const LateCosts::Stage& stage, std::span<const double> price,
           std::span<const double> longest);
  void run_outlasting(const LateCosts::Stage& stage, std::span<const double> price,
                      std::span<const double> longest);
  void run_change(const LateCosts::Stage& stage, std::size_t k, LateCosts::Carried change,
                  std::span<const double> price, std::span<const double> longest);
  void offer_any(std::size_t at, double sum, Origin origin) {
    if (sum >= least_[at]) return;
    least_[at] = sum;
    least_from_[at] = origin;
  }
  void offer_settled(std::size_t at, double sum, Origin origin) {
    if (sum >= settled_[at]) return;
    settled_[at] = sum;
    settled_from_[at] = origin;
  }
  int trace_outlasting(const LateCosts::Stage& stage, int last, std::vector<int>& setting) const;
  /// Runs with any setting before the first computation. Returns the best setting of the last.
  std::size_t run_open(const LateCosts::Stage& stage, std::span<const double> price,
                       std::span<const double> longest);
  /// Returns the cost of the best choices that end with each setting.
  std::span<const double> ends(const LateCosts::Stage& stage) const {
    return std::span(least_).subspan(stage.nodes.size() * stage.settings.size());
  }
  /// Sets the best choices that end with `last`. Returns the setting before the first of them.
  int trace(const LateCosts::Stage& stage, std::span<const double> price,
            std::span<const double> longest, int last, std::vector<int>& setting) const;

  bool carries(const LateCosts::Stage& stage) const {
    return stage.outlasts && late_ == Late::kAll;
  }

  const LateCosts& costs_;
  Late late_;
  std::vector<double> least_;  // least sum by number of computations and setting of the last
  std::vector<Range> ranges_;  // per computation
  // For changes longer than their instructions: the least sums without a late change, and origins.
  std::vector<double> settled_;
  std::vector<Origin> least_from_, settled_from_;
};

}  // namespace harpe::plan
