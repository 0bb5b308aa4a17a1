#pragma once
/// \file
/// The cheapest settings of one stage at given prices of time, when settings come late.

#include <cstddef>
#include <span>
#include <vector>

#include "harpe/plan/frontier/late_costs.h"

namespace harpe::plan {

/// The least of cost plus price times time over one round of a stage: of its list, whose first
/// computation follows its last. Of each computation, only settings near its best one are tried: no
/// other can be in the best round. O(list x settings^2) in the worst case, and a few times that if
/// the best open list does not end with the setting that it began after; times the number of
/// instructions that a change outlasts.
///
/// A change that outlasts its instruction counts in those after it (`LateCosts::carried`), up to
/// the end of the list or to the next change. Lateness beyond these does not count, so that the sum
/// is a lower bound of what plans count.
class LateRound {
 public:
  /// Instructions in which a change counts that outlasts its own. `kFirst` proves less and takes a
  /// fraction of the time.
  enum class Late : unsigned char { kAll, kFirst };
  explicit LateRound(const LateCosts& costs, Late late = Late::kAll) : costs_(costs), late_(late) {}

  /// \param price    of a second, W, one a node of the pipeline
  /// \param longest  seconds, one a node: what takes longer is left out
  /// \param setting  of each node of the stage, in its `settings`: the choices (output)
  /// \returns  joules; `LateCosts::kNever` where nothing is left
  double cheapest(int stage, std::span<const double> price, std::span<const double> longest,
                  std::vector<int>& setting);
  /// The same with any setting before the first computation, not that of the last. Returns at most
  /// what `cheapest` returns, and less by at most the cost of one late change.
  /// O(list x settings^2)
  double cheapest_open(int stage, std::span<const double> price, std::span<const double> longest,
                       std::vector<int>& setting);

 private:
  /// Settings of a computation that can be in the best round: from `first` to before `end`.
  struct Range {
    std::size_t first = 0, end = 0;
  };
  /// How a state after some computations was reached: by a change that computation `change` asked
  /// for, after setting `before`; or if `change` is -1, by staying at a setting in force.
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
  /// Runs with any setting before the first; returns the setting of the last that costs least.
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
  std::vector<double> least_;  // after so many computations, at each setting
  std::vector<Range> ranges_;  // of each computation
  // If changes outlast their instructions: the least with nothing late any more, and origins.
  std::vector<double> settled_;
  std::vector<Origin> least_from_, settled_from_;
};

}  // namespace harpe::plan
