#pragma once
/// \file
/// Looks for the best set of intervals to run in among those like the ones that a price chose: a
/// price cannot tell apart what is worth the same at it, such as where a job ends in hours that are
/// all alike. See pacing_plan.h.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "harpe/carbon/pacing/pacing_plan.h"

namespace harpe {

struct SearchTerms {
  std::size_t dwell = 1;   ///< intervals that a run or a pause lasts at least
  std::size_t spent = 0;   ///< that the state it begins with has lasted
  std::size_t search = 0;  ///< linear programmes times intervals that it may take
};

/// Everything given must outlive it. Takes fewer linear programmes the more intervals there are:
/// about as long for few as for many.
class StructureSearch {
 public:
  /// \param best   replaced by what is cheaper
  StructureSearch(const PaceCurve& curve, const PacingJob& job, const PacingState& state,
                  std::span<const PacingInterval> intervals, const SearchTerms& terms,
                  PacingPlan& best);

  /// Takes these runs where that is the best so far; whether it is.
  bool consider(std::vector<bool> runs);
  /// \param runs  which intervals run, up to the last that does; ended earlier where that is
  /// cheaper
  void from(const std::vector<bool>& runs);
  /// Goes on from the best, as long as something is found.
  void improve();

 private:
  std::optional<std::vector<PacedInterval>> structure(const std::vector<bool>& runs) const;
  double cost_until(const std::vector<bool>& runs, std::size_t end) const;
  bool take(const std::vector<PacedInterval>& paced, std::size_t flexible);
  bool try_moves();

  const PaceCurve& curve_;
  const PacingJob& job_;
  const PacingState& state_;
  std::span<const PacingInterval> intervals_;
  std::size_t dwell_, spent_;
  PacingPlan& best_;
  std::vector<bool> runs_;  ///< of the best
  std::size_t left_;        ///< linear programmes
};

/// Of a plan, or of a path.
std::vector<bool> runs_of(const std::vector<PacedInterval>& paced);

}  // namespace harpe
