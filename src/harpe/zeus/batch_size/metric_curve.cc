#include "harpe/zeus/batch_size/metric_curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>

namespace harpe::zeus {
namespace {

// Prior: one job in five has a late jump, as from a schedule of learning rates. The prior counts as
// one training. If no training has converged, there is no evidence against a jump.
constexpr double kJumps = 0.2, kJumpWeight = 1, kJumpUnknown = 0.5;

/// Returns true if the converged curve itself predicted at some epoch that it would not converge.
bool has_jumped(const MetricCurve& converged, MetricTarget target) {
  target.last_epoch = converged.newest_epoch();
  for (const double share : {0.3, 0.5, 0.7, 0.85}) {
    const auto epoch = static_cast<int>(share * converged.newest_epoch());
    const auto chance = chance_to_reach(converged.until(epoch), target, 0);
    if (chance && *chance < kLeastChance) return true;
  }
  return false;
}

/// The longest run of metrics that are not numbers, and the count of numbers.
struct Measured {
  int longest = 0, numbers = 0;
};

Measured measured(const MetricCurve& curve) {
  Measured found;
  int run = 0;
  for (const MetricPoint& point : curve.points()) {
    run = point.metric ? 0 : run + 1;
    found.longest = std::max(found.longest, run);
    found.numbers += point.metric ? 1 : 0;
  }
  return found;
}

/// Returns true if the metric has changed. A constant metric only shows that the target has not
/// been reached yet.
bool has_moved(const MetricCurve& curve) {
  std::optional<double> first;
  for (const MetricPoint& point : curve.points()) {
    if (!first) first = point.metric;
    if (point.metric && *point.metric != *first) return true;
  }
  return false;
}

// The unit below is the distance from the worst metric so far to the target.
constexpr double kLeastScatter = 0.004;  // of single epochs
constexpr double kMisfit = 0.01;         // of any shape: no training matches one exactly
// Trainings slow down more than a shape that fits them so far: on average they make this share of
// the progress that the shape still predicts, and this share is uncertain, beyond the disagreement
// of the shapes. Both, and the epochs from which scatter is estimated, were chosen by likelihood on
// the corpus's tasks for choosing (will_not_reach_corpus_test.cc).
constexpr double kProgressShare = 0.5, kProgressDoubt = 0.5;
constexpr std::size_t kScatterEpochs = 10;  // the newest: scatter decreases
// Residuals of neighbours are correlated: they carry less information than independent ones.
constexpr double kAlike = 2;
constexpr double kRidge = 1e-3;  // so that a fit exists for any samples
// A jump is expected within this multiple of the last epoch, log-uniformly.
constexpr double kJumpSpan = 4;

struct Sample {
  double epoch = 0, value = 0, weight = 0;
};

/// Progress of a training, up to scale and offset. Rises with the epoch.
struct Shape {
  enum class Kind : unsigned char { kPower, kExponential, kLogarithm } kind = Kind::kPower;
  double rate = 1;     ///< exponent; or epochs after which 1/e is left
  double stretch = 1;  ///< exponent of epochs, within the exponential; or epochs before the first

  double at(double epoch) const {
    switch (kind) {
      case Kind::kPower:
        return -std::pow(epoch + stretch, -rate);
      case Kind::kExponential:
        return -std::exp(-std::pow(epoch / rate, stretch));
      case Kind::kLogarithm:
        return std::log(epoch + stretch);
    }
    return 0;
  }
};

std::vector<Shape> shapes_for(double last_epoch) {
  std::vector<Shape> shapes;
  for (const double before : {0.0, 3.0, 12.0}) {
    for (const double rate : {0.25, 0.5, 1.0, 2.0}) {
      shapes.push_back({Shape::Kind::kPower, rate, before});
    }
    shapes.push_back({Shape::Kind::kLogarithm, 1, before});
  }
  for (const double stretch : {0.6, 1.0, 2.0}) {
    for (double rate = 1; rate < 2 * last_epoch; rate *= 1.8) {
      shapes.push_back({Shape::Kind::kExponential, rate, stretch});
    }
  }
  return shapes;
}

double share_below(double z) {
  return std::erfc(-z / std::numbers::sqrt2) / 2;
}

/// Returns the standard deviation of single epochs about their neighbours.
double scatter_of(std::span<const Sample> samples) {
  double sum = 0, count = 0;
  const std::size_t first = std::max(samples.size(), kScatterEpochs + 2) - kScatterEpochs;
  for (std::size_t i = first; i < samples.size(); ++i) {
    const Sample &a = samples[i - 2], &b = samples[i - 1], &c = samples[i];
    const double share = (b.epoch - a.epoch) / (c.epoch - a.epoch);
    const double off = b.value - (1 - share) * a.value - share * c.value;
    sum += off * off / (1 + share * share + (1 - share) * (1 - share));
    ++count;
  }
  // Adds one standard error, since an estimate from few epochs varies.
  return count > 0 ? std::sqrt(sum / count) * (1 + 1 / std::sqrt(2 * count)) : 0;
}

/// A shape, scaled and shifted to fit the samples.
class Fit {
 public:
  Fit(const Shape& shape, std::span<const Sample> samples)
      : shape_(shape), first_(shape.at(samples.front().epoch)) {
    span_ = shape.at(samples.back().epoch) - first_;
    is_flat_ = !(span_ > 1e-9);
    double w = kRidge, wg = 0, wgg = kRidge, wz = 0, wgz = 0;
    std::vector<double> at;
    for (const Sample& one : samples) {
      const double g = at.emplace_back(progress(one.epoch));
      w += one.weight;
      wg += one.weight * g;
      wgg += one.weight * g * g;
      wz += one.weight * one.value;
      wgz += one.weight * g * one.value;
    }
    const double determinant = w * wgg - wg * wg;
    gain_ = (w * wgz - wg * wz) / determinant;
    start_ = (wgg * wz - wg * wgz) / determinant;
    if (gain_ < 0) {
      gain_ = 0;
      start_ = wz / w;
    }
    double squares = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double off = samples[i].value - start_ - gain_ * at[i];
      squares += samples[i].weight * off * off;
    }
    const double freedom = std::max(1.0, w - 2);
    variance_ = squares / freedom + kMisfit * kMisfit;
    log_fit_ = -w / 2 * std::log(squares / w + kMisfit * kMisfit);
    inverse_ = {wgg / determinant, -wg / determinant, w / determinant};
  }

  bool is_flat() const { return is_flat_; }
  double log_fit() const { return log_fit_; }
  double mean(double epoch) const {
    const double g = progress(epoch);
    return start_ + gain_ * (g > 1 ? 1 + kProgressShare * (g - 1) : g);
  }
  double deviation(double epoch) const {
    const double g = progress(epoch);
    const double doubt = kProgressDoubt * gain_ * (g - 1);
    const double estimate =
        kAlike * variance_ * (inverse_[0] + 2 * g * inverse_[1] + g * g * inverse_[2]);
    return std::sqrt(estimate + doubt * doubt);
  }

 private:
  double progress(double epoch) const { return is_flat_ ? 0 : (shape_.at(epoch) - first_) / span_; }

  Shape shape_;
  double first_ = 0, span_ = 1;
  bool is_flat_ = false;
  double start_ = 0, gain_ = 0, variance_ = 0, log_fit_ = 0;
  std::array<double, 3> inverse_{};  ///< inverse of the normal matrix: 00, 01, 11
};

/// Returns the probability that at least one epoch after `now` is above 0.
double chance_above_0(const Fit& fit, double scatter, int now, int last) {
  // Nodes and weights of a normal distribution, by Gauss and Hermite.
  constexpr std::array<double, 5> kNodes{-2.856970, -1.355626, 0, 1.355626, 2.856970};
  constexpr std::array<double, 5> kWeights{0.011257, 0.222076, 0.533333, 0.222076, 0.011257};
  const std::int64_t left = last - now;
  double chance = 0;
  for (std::size_t node = 0; node < kNodes.size(); ++node) {
    double log_none = 0;
    // Steps grow by half from `now` on, so near epochs do not depend on the last one.
    for (std::int64_t before = 0, at = 1; before < left; at += 1 + at / 2) {
      at = std::min(at, left);
      const auto epoch = static_cast<double>(now + at);
      const double level = fit.mean(epoch) + kNodes[node] * fit.deviation(epoch);
      log_none += static_cast<double>(at - before) *
                  std::log(std::max(1e-300, share_below(-level / scatter)));
      before = at;
    }
    chance += kWeights[node] * (1 - std::exp(log_none));
  }
  return std::clamp(chance, 0.0, 1.0);
}

/// Returns the probability of a jump in the remaining epochs, if there was none so far.
double chance_of_jump(double beforehand, double now, double last) {
  const double span = std::log(kJumpSpan * last);
  const double comes = std::log(last / now) / span;
  const double not_yet = 1 - std::log(now) / span;
  return beforehand * comes / (beforehand * not_yet + 1 - beforehand);
}

/// Returns the samples relative to the target (0), in units of the way to it. The newer, the more
/// weight a sample has.
std::vector<Sample> samples_of(const MetricCurve& curve, const MetricTarget& target) {
  const double sign = target.higher_is_better ? 1 : -1;
  std::vector<Sample> samples;
  double worst = 0;
  for (const MetricPoint& point : curve.points()) {
    if (!point.metric) continue;
    const double value = sign * (*point.metric - target.metric);
    samples.push_back({1.0 * point.epoch, value, 1.0 * point.epoch / curve.newest_epoch()});
    worst = std::min(worst, value);
  }
  if (worst < 0) {
    for (Sample& one : samples) one.value /= -worst;
  }
  return samples;
}

}  // namespace

void MetricCurve::add(int epoch, double metric) {
  if (epoch < newest_epoch()) return;
  if (!points_.empty() && epoch == newest_epoch()) points_.pop_back();
  if (points_.size() >= kMostPoints) {
    std::vector<MetricPoint> kept;
    for (std::size_t i = 0; i < points_.size(); i += 2) kept.push_back(points_[i]);
    points_ = std::move(kept);
  }
  points_.push_back({epoch, std::isfinite(metric) ? std::optional(metric) : std::nullopt});
}

int MetricCurve::numbers() const {
  return static_cast<int>(std::ranges::count_if(
      points_, [](const MetricPoint& one) { return one.metric.has_value(); }));
}

int MetricCurve::missing_at_end() const {
  int missing = 0;
  for (auto at = points_.rbegin(); at != points_.rend() && !at->metric; ++at) ++missing;
  return missing;
}

MetricCurve MetricCurve::until(int epoch) const {
  MetricCurve part;
  for (const MetricPoint& point : points_) {
    if (point.epoch <= epoch) part.points_.push_back(point);
  }
  return part;
}

std::optional<double> MetricCurve::best_until(int epoch, bool higher_is_better) const {
  std::optional<double> best;
  for (const MetricPoint& point : points_) {
    if (point.epoch > epoch || !point.metric) continue;
    if (!best || (higher_is_better ? *point.metric > *best : *point.metric < *best)) {
      best = point.metric;
    }
  }
  return best;
}

std::optional<double> chance_to_reach(const MetricCurve& curve, const MetricTarget& target,
                                      double jump_chance) {
  const std::vector<Sample> samples = samples_of(curve, target);
  if (samples.size() < static_cast<std::size_t>(kLeastMetrics)) return std::nullopt;
  for (const Sample& one : samples) {
    if (one.value >= 0) return 1;
  }
  const int now = curve.newest_epoch(), last = target.last_epoch;
  if (now >= last) return 0;
  const double scatter = std::max(kLeastScatter, scatter_of(samples));
  double weight = 0, chance = 0, level = 0;
  double highest_fit = -std::numeric_limits<double>::infinity();
  std::vector<Fit> fits;
  for (const Shape& shape : shapes_for(last)) {
    fits.emplace_back(shape, samples);
    if (fits.back().is_flat()) fits.pop_back();
  }
  for (const Fit& fit : fits) highest_fit = std::max(highest_fit, fit.log_fit());
  for (const Fit& fit : fits) {
    const double counts = std::exp(fit.log_fit() - highest_fit);
    if (counts < 1e-6) continue;
    weight += counts;
    chance += counts * chance_above_0(fit, scatter, now, last);
    level += counts * fit.mean(last);
  }
  if (weight > 0) {
    chance /= weight;
    level /= weight;
  }
  // A level farther from the target needs a larger jump.
  const double gap = std::max(0.0, -level);
  const double jump = chance_of_jump(jump_chance, now, last) / (1 + 2 * gap);
  return chance + (1 - chance) * jump;
}

bool keeps_up(const MetricCurve& curve, const MetricCurve& converged, const MetricTarget& target) {
  const int now = curve.newest_epoch();
  const auto best = curve.best_until(now, target.higher_is_better);
  if (!best || target.last_epoch < 1) return false;
  const auto same = static_cast<int>(static_cast<std::int64_t>(now) * converged.newest_epoch() /
                                     target.last_epoch);
  const auto then = converged.best_until(same, target.higher_is_better);
  return !then || (target.higher_is_better ? *best >= *then : *best <= *then);
}

double jump_chance(std::span<const MetricCurve* const> converged, const MetricTarget& target) {
  if (converged.empty()) return kJumpUnknown;
  const auto jumped = std::ranges::count_if(
      converged, [&target](const MetricCurve* one) { return has_jumped(*one, target); });
  return (kJumps * kJumpWeight + static_cast<double>(jumped)) /
         (kJumpWeight + static_cast<double>(converged.size()));
}

bool has_diverged(const MetricCurve& curve, std::span<const MetricCurve* const> converged) {
  const int missing = curve.missing_at_end();
  bool is_measured = curve.numbers() >= kLeastMetrics;
  int most = kMostMissing;
  for (const MetricCurve* one : converged) {
    const Measured found = measured(*one);
    is_measured = is_measured || found.numbers >= kLeastMetrics;
    most = std::max(most, 2 * found.longest);
  }
  const int before = measured(curve.until(curve.newest_epoch() - missing)).longest;
  return is_measured && missing > std::max(most, 2 * before);
}

bool will_not_reach(const MetricCurve& curve, std::span<const MetricCurve* const> converged,
                    const MetricTarget& target) {
  if (has_diverged(curve, converged)) return true;
  if (converged.empty() && !has_moved(curve)) return false;
  for (const MetricCurve* one : converged) {
    if (keeps_up(curve, *one, target)) return false;
  }
  // A curve that is likely to reach the target without a jump needs no estimate of jumps.
  const auto smooth = chance_to_reach(curve, target, 0);
  if (!smooth || *smooth >= kLeastChance) return false;
  return chance_to_reach(curve, target, jump_chance(converged, target)) < kLeastChance;
}

}  // namespace harpe::zeus
