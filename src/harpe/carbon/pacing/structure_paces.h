#pragma once
/// \file
/// The paces of a job whose pauses are fixed: a linear programme, solved exactly. See
/// pacing_plan.h.

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "harpe/carbon/pacing/pacing_plan.h"

namespace harpe {

inline constexpr std::size_t kNoInterval = std::numeric_limits<std::size_t>::max();

/// The cheapest plan that does all the work in the intervals that run; none where they cannot.
/// \param paced     which run, and what stopping and starting take of them
/// \param flexible  an interval that may run for a part of it and idle for the rest, or be through;
///                  kNoInterval: none
/// O(intervals log paces) for each of some 100 prices.
std::optional<PacingPlan> plan_of_structure(const PaceCurve& curve, const PacingJob& job,
                                            std::span<const PacingInterval> intervals,
                                            std::vector<PacedInterval> paced, std::size_t flexible);

}  // namespace harpe
