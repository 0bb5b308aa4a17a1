#include "harpe/plan/profile/smooth.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

#include "harpe/base/statistics.h"

namespace harpe::plan {
namespace {

constexpr std::size_t kWindow = 7;
constexpr double kOutlierSigmas = 6;
constexpr double kWideGap = 3;           // times the median gap
constexpr double kLeastVariance = 1e-3;  // below it the curve is forced through the point

/// A point's residual from the local curve, and the weight of its own value in that curve.
struct LocalFit {
  double residual = 0;
  double own_weight = 0;  ///< of the point in the curve's value at it
  double variance = 1;    ///< of the residual, in units of the noise variance
};

/// Computes the first row of the inverse of the symmetric matrix of moments m[i + j].
bool invert_first_row(const double (&m)[5], double (&row)[3]) {
  const double c0 = m[2] * m[4] - m[3] * m[3];
  const double c1 = m[2] * m[3] - m[1] * m[4];
  const double c2 = m[1] * m[3] - m[2] * m[2];
  const double determinant = m[0] * c0 + m[1] * c1 + m[2] * c2;
  if (!(std::abs(determinant) > 1e-14)) return false;
  row[0] = c0 / determinant;
  row[1] = c1 / determinant;
  row[2] = c2 / determinant;
  return true;
}

/// Returns the kept points nearest to `center`, as a range [first, last) of `kept`.
std::pair<std::size_t, std::size_t> window(std::span<const double> x,
                                           const std::vector<std::size_t>& kept, double center) {
  const auto by_value = [&](std::size_t j, double value) { return x[j] < value; };
  std::size_t first = static_cast<std::size_t>(
      std::lower_bound(kept.begin(), kept.end(), center, by_value) - kept.begin());
  std::size_t last = first;
  while (last - first < std::min(kWindow, kept.size())) {
    const bool left_is_nearer =
        first > 0 && (last == kept.size() || center - x[kept[first - 1]] <= x[kept[last]] - center);
    if (left_is_nearer) {
      --first;
    } else {
      ++last;
    }
  }
  return {first, last};
}

LocalFit fit_at(std::span<const double> x, std::span<const double> y,
                const std::vector<std::size_t>& kept, std::size_t i) {
  const auto [first, last] = window(x, kept, x[i]);
  const double reach = 1.2 * std::max(x[i] - x[kept[first]], x[kept[last - 1]] - x[i]);
  const auto position = [&](std::size_t j) { return (x[kept[j]] - x[i]) / reach; };
  const auto weight = [&](std::size_t j) {
    const double u = std::abs(position(j));
    const double t = 1 - u * u * u;
    return t * t * t;
  };
  double moments[5] = {};
  for (std::size_t j = first; j < last; ++j) {
    double term = weight(j);
    for (double& moment : moments) {
      moment += term;
      term *= position(j);
    }
  }
  double row[3];
  if (!invert_first_row(moments, row)) return {};
  LocalFit fit;
  double value = 0, squares = 0;
  for (std::size_t j = first; j < last; ++j) {
    const double u = position(j);
    const double share = weight(j) * (row[0] + u * (row[1] + u * row[2]));
    value += share * y[kept[j]];
    squares += share * share;
    if (kept[j] == i) fit.own_weight = share;
  }
  fit.residual = y[i] - value;
  fit.variance = 1 - 2 * fit.own_weight + squares;
  return fit;
}

/// Returns true for each point whose neighbours on both sides, if any, are close.
std::vector<bool> judgeable(std::span<const double> x) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < x.size(); ++i) gaps.push_back(x[i] - x[i - 1]);
  std::vector<double> sorted = gaps;
  const double wide = kWideGap * median(sorted);
  std::vector<bool> result(x.size(), true);
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    if (gaps[i] > wide) result[i] = result[i + 1] = false;
  }
  return result;
}

}  // namespace

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Scatter scatter(std::span<const double> x, std::span<const double> y, double tolerance) {
  Scatter result{.noise = 0,
                 .deviation = std::vector<double>(x.size()),
                 .outlier = std::vector<bool>(x.size())};
  if (x.size() < Scatter::kFewest) return result;
  const std::vector<bool> may_judge = judgeable(x);
  std::vector<std::size_t> kept(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) kept[i] = i;

  // Removing the worst outlier first keeps it from making its neighbours look bad.
  for (;;) {
    std::vector<double> scaled;
    std::vector<LocalFit> fits;
    for (const std::size_t i : kept) {
      fits.push_back(fit_at(x, y, kept, i));
      if (fits.back().variance > kLeastVariance) {
        scaled.push_back(std::abs(fits.back().residual) / std::sqrt(fits.back().variance));
      }
    }
    result.noise = kMadToSigma * median(scaled);
    double worst = kOutlierSigmas;
    std::size_t worst_at = kept.size();
    for (std::size_t k = 0; k < kept.size(); ++k) {
      const LocalFit& fit = fits[k];
      if (fit.variance <= kLeastVariance) continue;
      const double deviation = fit.residual / (1 - fit.own_weight);
      result.deviation[kept[k]] = deviation;
      const double sigmas =
          std::abs(fit.residual) / std::sqrt(fit.variance * result.noise * result.noise + 1e-300);
      if (may_judge[kept[k]] && std::abs(deviation) > tolerance && sigmas > worst) {
        worst = sigmas;
        worst_at = k;
      }
    }
    if (worst_at == kept.size() || kept.size() <= Scatter::kFewest + 1) break;
    result.outlier[kept[worst_at]] = true;
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(worst_at));
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (result.outlier[i]) result.deviation[i] = fit_at(x, y, kept, i).residual;
  }
  return result;
}

std::vector<InstructionProfile> curves_of(const InstructionProfile& entry) {
  std::map<Knobs, std::vector<OperatingPoint>> by_knobs;
  for (const OperatingPoint& point : entry.points) by_knobs[point.knobs].push_back(point);
  std::vector<InstructionProfile> curves;
  for (auto& [knobs, points] : by_knobs) {
    curves.push_back({entry.stage, entry.chunk, entry.kind, std::move(points)});
  }
  return curves;
}

}  // namespace harpe::plan
