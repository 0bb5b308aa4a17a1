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

}  // namespace harpe::zeus
