#pragma once
/// \file
/// Whether a training is to be ended because its metric says that it will not reach the target in
/// the epochs it may still have. Wrong where it would have: the rule is one that is hardly ever.
///
/// A training is ended where one of these holds:
/// * It is unlikely to reach the target by what its own curve says (metric_curve.h), and it does
///   not keep up with any training of the job that converged. How likely a jump is that no curve
///   shows beforehand is learned from those: as many of them as had one count (a beta
///   distribution). While none has converged, a jump is as likely as not, so that next to nothing
///   is ended then, and nothing whose metric was the same all along.
/// * Its metric has become no number and stays so: weights that are no numbers do not recover.
///
/// Pure; O(converged x points x shapes): 0.1 ms for what is likely without a jump, 7 ms for the
/// rest with 16 that converged, on one core of a 2-core virtual machine.

#include <optional>
#include <span>

#include "harpe/zeus/batch_size/metric_curve.h"

namespace harpe::zeus {

/// Below this chance it is ended.
inline constexpr double kLeastChance = 0.01;
/// Metrics in a row that are no numbers, after which a training has diverged: a metric that is not
/// defined yet (0 / 0) or overflows for once recovers sooner.
inline constexpr int kMostMissing = 4;

/// That a curve of this job has a jump, by those that converged.
double jump_chance(std::span<const MetricCurve* const> converged, const MetricTarget& target);

/// Its metric was a number in `kLeastMetrics` epochs, as were those of one that converged, and now
/// it is not, for more epochs in a row than `kMostMissing` and than twice what any had before that
/// converged. Where metrics are not measured each epoch, nothing has diverged.
bool has_diverged(const MetricCurve& curve, std::span<const MetricCurve* const> converged);

/// \param converged  curves of the job's trainings that reached the target; any batch size
bool will_not_reach(const MetricCurve& curve, std::span<const MetricCurve* const> converged,
                    const MetricTarget& target);

}  // namespace harpe::zeus
