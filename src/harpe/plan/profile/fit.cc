#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "harpe/plan/profile/check.h"
#include "harpe/plan/profile/smooth.h"

namespace harpe {
namespace {

constexpr std::size_t kFewestClocks = 5;
constexpr std::size_t kMostTerms = 7;
constexpr std::size_t kMostKnots = 48;
constexpr double kHuber = 1.345;         // 95 % as efficient as least squares on normal noise
constexpr double kLeastFitNoise = 1e-6;  // keeps the criterion finite on exact data
constexpr int kReweightings = 5;
constexpr int kRefinements = 3;
constexpr int kPatience = 2;

using Terms = std::vector<std::vector<double>>;  // values of each term at each point

/// Solves weighted least squares by modified Gram-Schmidt. Returns the fitted values; nullopt if
/// terms are (nearly) dependent.
std::optional<std::vector<double>> least_squares(const Terms& terms, std::span<const double> y,
                                                 std::span<const double> weights) {
  const std::size_t n = y.size();
  Terms basis;
  std::vector<double> rest(y.begin(), y.end());
  std::vector<double> fitted(n, 0.0);
  const auto product = [&](std::span<const double> a, std::span<const double> b) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += weights[i] * a[i] * b[i];
    return sum;
  };
  for (const std::vector<double>& term : terms) {
    std::vector<double> direction = term;
    const double before = product(term, term);
    for (const std::vector<double>& unit : basis) {
      const double share = product(direction, unit);
      for (std::size_t i = 0; i < n; ++i) direction[i] -= share * unit[i];
    }
    const double after = product(direction, direction);
    if (!(after > 1e-18 * before)) return std::nullopt;
    for (double& value : direction) value /= std::sqrt(after);
    const double share = product(rest, direction);
    for (std::size_t i = 0; i < n; ++i) {
      rest[i] -= share * direction[i];
      fitted[i] += share * direction[i];
    }
    basis.push_back(std::move(direction));
  }
  return fitted;
}

/// A bend of the curve: (x - knot)^power above the knot.
struct Bend {
  double knot = 0;
  int power = 1;
};

/// A smooth curve through positive measurements: two base terms, and bends that improve the score.
class RobustFit {
 public:
  /// \param base  values of the base terms at each of `x`.
  RobustFit(std::span<const double> x, std::span<const double> y, Terms base)
      : x_(x.begin(), x.end()),
        base_(std::move(base)),
        ones_(x.size(), 1.0),
        noise_(std::max(noise_of(x, y), kLeastFitNoise)) {
    // Relative deviations: every row divided by its measurement.
    for (std::size_t i = 0; i < x_.size(); ++i) scale_.push_back(1 / y[i]);
    for (std::vector<double>& term : base_) {
      for (std::size_t i = 0; i < x_.size(); ++i) term[i] *= scale_[i];
    }
  }

  /// Returns the values of the fitted curve.
  std::vector<double> values() {
    Fit best = fit({}, ones_, kReweightings);
    const std::size_t most_terms = std::min((x_.size() - 1) / 2, kMostTerms);
    // Some bends improve the score only together with the next one, so the search continues
    // for a while.
    int in_vain = 0;
    for (Fit next = best; base_.size() + next.bends.size() < most_terms && in_vain < kPatience;) {
      next.bends.emplace_back();
      next.score = std::numeric_limits<double>::infinity();
      improve(next, next.bends.size() - 1);
      for (int round = 0; round < kRefinements; ++round) {
        const double before = next.score;
        for (std::size_t bend = 0; bend < next.bends.size(); ++bend) improve(next, bend);
        if (next.score == before) break;
      }
      ++in_vain;
      if (next.score < best.score) {
        best = next;
        in_vain = 0;
      }
    }
    for (std::size_t i = 0; i < x_.size(); ++i) best.fitted[i] /= scale_[i];
    return best.fitted;
  }

 private:
  struct Fit {
    std::vector<Bend> bends;
    std::vector<double> fitted;   ///< relative to the measurements
    std::vector<double> weights;  ///< of the measurements, smaller the further they are off
    double score = std::numeric_limits<double>::infinity();
  };

  static double noise_of(std::span<const double> x, std::span<const double> y) {
    std::vector<double> log_x, log_y;
    for (const double value : x) log_x.push_back(std::log(value));
    for (const double value : y) log_y.push_back(std::log(value));
    return plan::scatter(log_x, log_y, 0.01).noise;
  }

  static double huber_loss(double sigmas) {
    const double size = std::abs(sigmas);
    return size <= kHuber ? size * size : kHuber * (2 * size - kHuber);
  }

  std::vector<double> values_of(Bend bend) const {
    std::vector<double> values;
    for (std::size_t i = 0; i < x_.size(); ++i) {
      const double over = std::max(0.0, x_[i] - bend.knot);
      values.push_back((bend.power == 1 ? over : over * over) * scale_[i]);
    }
    return values;
  }

  /// Fits by least squares with the given weights, reweighted `rounds` - 1 times.
  Fit fit(std::vector<Bend> bends, std::vector<double> weights, int rounds) const {
    Terms terms = base_;
    for (const Bend bend : bends) terms.push_back(values_of(bend));
    Fit result{std::move(bends), ones_, std::move(weights)};
    for (int round = 0; round < rounds; ++round) {
      std::optional<std::vector<double>> next = least_squares(terms, ones_, result.weights);
      if (!next) return result;
      result.fitted = *std::move(next);
      for (std::size_t i = 0; i < x_.size(); ++i) {
        const double sigmas = std::abs(result.fitted[i] - 1) / noise_;
        result.weights[i] = sigmas <= kHuber ? 1 : kHuber / sigmas;
      }
    }
    // A bend costs two parameters: its size and its knot.
    result.score = static_cast<double>(base_.size() + 2 * result.bends.size()) *
                   std::log(static_cast<double>(x_.size()));
    for (const double fitted : result.fitted) result.score += huber_loss((fitted - 1) / noise_);
    return result;
  }

  /// Moves one bend to the knot and power with the best score.
  void improve(Fit& current, std::size_t bend) const {
    const std::size_t inner = x_.size() - 2;
    const std::size_t count = std::min(inner, kMostKnots);
    Fit best = current;
    for (std::size_t k = 0; k < count; ++k) {
      // If there are many knots, only some are tried, but always the clock next to the highest,
      // which is often the only one not throttled.
      const std::size_t at = 1 + (count == 1 ? 0 : k * (inner - 1) / (count - 1));
      for (const int power : {1, 2}) {
        std::vector<Bend> bends = current.bends;
        bends[bend] = {x_[at], power};
        Fit next = fit(std::move(bends), current.weights, 1);
        if (next.score < best.score) best = std::move(next);
      }
    }
    if (best.score == current.score) return;
    Fit settled = fit(best.bends, best.weights, kReweightings);
    current = settled.score < best.score ? std::move(settled) : std::move(best);
  }

  std::vector<double> x_;
  Terms base_;
  std::vector<double> ones_;
  std::vector<double> scale_;
  double noise_;
};

std::vector<double> term(std::span<const double> x, const std::function<double(double)>& f) {
  std::vector<double> values;
  for (const double at : x) values.push_back(f(at));
  return values;
}

void smooth(std::vector<OperatingPoint>& points) {
  if (points.size() < kFewestClocks) return;
  std::vector<double> x, time, energy;
  for (const OperatingPoint& point : points) {
    x.push_back(point.clock.value / static_cast<double>(points.back().clock.value));
    time.push_back(point.time.value);
    energy.push_back(point.energy.value);
  }
  const std::vector<double> one = term(x, [](double) { return 1.0; });
  const std::vector<double> slowness = term(x, [](double at) { return 1 / at; });
  const std::vector<double> smooth_time = RobustFit(x, time, {one, slowness}).values();
  const std::vector<double> smooth_energy = RobustFit(x, energy, {one, slowness, x}).values();
  const auto positive = [](double value) { return value > 0 && std::isfinite(value); };
  if (!std::all_of(smooth_time.begin(), smooth_time.end(), positive)) return;
  if (!std::all_of(smooth_energy.begin(), smooth_energy.end(), positive)) return;
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i].time = {smooth_time[i]};
    points[i].energy = {smooth_energy[i]};
  }
}

}  // namespace

Profile fit_profile(const Profile& profile) {
  std::vector<InstructionProfile> entries(profile.entries().begin(), profile.entries().end());
  for (InstructionProfile& entry : entries) {
    if (is_fixed_time(entry.kind)) continue;
    std::vector<InstructionProfile> curves = plan::curves_of(entry);
    entry.points.clear();
    for (InstructionProfile& curve : curves) {
      smooth(curve.points);
      entry.points.insert(entry.points.end(), curve.points.begin(), curve.points.end());
    }
  }
  return profile.with_entries(std::move(entries));
}

}  // namespace harpe
