#pragma once
/// \file
/// The metric of a training after each of its epochs, and how likely it is to reach a target in the
/// epochs it still has.
///
/// The curve so far is extrapolated by an ensemble of saturating curves (as Domhan et al., IJCAI
/// 2015): start + progress x g(epoch), g a power law, an exponential, a stretched exponential or a
/// logarithm, each with a few dozen fixed shapes. Start and progress (which is never negative) are
/// a weighted least-squares fit in which newer epochs weigh more; shapes count by how well they
/// fit, and half of what they still promise is believed. The target counts as reached where the
/// metric of one epoch is beyond it: the scatter of single epochs, taken from second differences,
/// adds to the doubt about the curve itself.
///
/// No such curve sees a plateau end, as by a drop of the learning rate or by grokking. So with a
/// chance that the caller states, the curve is one with a jump, at an epoch that is log-uniform:
/// the longer nothing has happened, the less likely it will.
///
/// What is computed does not change where metrics and target are scaled or shifted together, nor
/// where their sign and the direction change. Pure; O(points x shapes).

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace harpe::zeus {

struct MetricPoint {
  int epoch = 0;                      ///< from 1
  std::optional<double> metric = {};  ///< finite; none: it was no number
  friend bool operator==(const MetricPoint&, const MetricPoint&) = default;
};

/// Points by rising epochs. Of a long training, older ones are thinned out.
class MetricCurve {
 public:
  static constexpr std::size_t kMostPoints = 96;

  /// \param epoch   at least that of the newest point, which it replaces if equal; else nothing is
  ///                added
  /// \param metric  what is not finite is no number
  void add(int epoch, double metric);
  void clear() { points_.clear(); }

  const std::vector<MetricPoint>& points() const { return points_; }
  bool empty() const { return points_.empty(); }
  /// How many points have a number.
  int numbers() const;
  /// How many at the end have none.
  int missing_at_end() const;
  /// Of the newest point; 0: there is none.
  int newest_epoch() const { return points_.empty() ? 0 : points_.back().epoch; }
  /// Up to this epoch.
  MetricCurve until(int epoch) const;
  /// The best up to this epoch; none: there is no number.
  std::optional<double> best_until(int epoch, bool higher_is_better) const;

  friend bool operator==(const MetricCurve&, const MetricCurve&) = default;

 private:
  std::vector<MetricPoint> points_;
};

struct MetricTarget {
  double metric = 0;
  bool higher_is_better = true;
  int last_epoch = 0;  ///< by which it is to be reached
};

/// Fewer numbers than this, and nothing is said of a curve.
inline constexpr int kLeastMetrics = 4;

/// The probability that a curve which has not reached its target does so in an epoch after its
/// newest, up to the last. None: too few numbers. 0 where no epoch is left, 1 where it was reached.
/// \param jump_chance  beforehand, that this is a curve with a jump at some epoch
std::optional<double> chance_to_reach(const MetricCurve& curve, const MetricTarget& target,
                                      double jump_chance);

/// Whether it is as far as one that converged was at the same share of its epochs: at epoch e of
/// `target.last_epoch` at least as good as the other at epoch e / last_epoch of its own.
bool keeps_up(const MetricCurve& curve, const MetricCurve& converged, const MetricTarget& target);

// Whether a training is to be ended because its metric says that it will not reach the target in
// the epochs it may still have. Wrong where it would have: the rule is one that is hardly ever.
//
// A training is ended where one of these holds:
// * It is unlikely to reach the target by what its own curve says (`chance_to_reach`), and it does
//   not keep up with any training of the job that converged. How likely a jump is that no curve
//   shows beforehand is learned from those: as many of them as had one count (a beta
//   distribution). While none has converged, a jump is as likely as not, so that next to nothing
//   is ended then, and nothing whose metric was the same all along.
// * Its metric has become no number and stays so: weights that are no numbers do not recover.
//
// Pure; O(converged x points x shapes): 0.1 ms for what is likely without a jump, 7 ms for the
// rest with 16 that converged, on one core of a 2-core virtual machine.

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
