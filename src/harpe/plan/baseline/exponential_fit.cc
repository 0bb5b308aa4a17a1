#include "harpe/plan/baseline/exponential_fit.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace harpe::plan {
namespace {

struct Fit {
  Exponential curve;
  double error = std::numeric_limits<double>::infinity();  ///< sum of squares
};

/// Returns the best scale and offset for a rate, over x that is shifted and stretched to 0..1.
Fit fit_at(double rate, double low, double range, std::span<const double> x,
           std::span<const double> y) {
  const auto count = static_cast<double>(x.size());
  double sum = 0, squares = 0, values = 0, products = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double power = std::exp(rate * (x[i] - low) / range);
    sum += power;
    squares += power * power;
    values += y[i];
    products += power * y[i];
  }
  const double spread = squares - sum * sum / count;
  if (!(spread > 0)) return {};
  Fit fit;
  fit.curve.scale = (products - sum * values / count) / spread;
  if (!(fit.curve.scale > 0)) return {};
  fit.curve.rate = rate;
  fit.curve.offset = (values - fit.curve.scale * sum) / count;
  fit.error = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double off = fit.curve((x[i] - low) / range) - y[i];
    fit.error += off * off;
  }
  return fit;
}

}  // namespace

std::optional<Exponential> fit_exponential(std::span<const double> x, std::span<const double> y) {
  // From nearly a line to a fall within a thousandth of the range.
  constexpr double kFlattest = 1e-3, kSteepest = 1e3, kGrid = 1.1;
  constexpr int kSections = 80;
  const auto [low, high] = std::ranges::minmax(x);
  const double range = high - low;
  if (!(range > 0)) return std::nullopt;
  const auto at = [&](double steepness) { return fit_at(-steepness, low, range, x, y); };
  double best = 0;
  Fit fit;
  for (double steepness = kFlattest; steepness <= kSteepest; steepness *= kGrid) {
    const Fit trial = at(steepness);
    if (trial.error >= fit.error) continue;
    fit = trial;
    best = steepness;
  }
  if (best == 0) return std::nullopt;
  const double golden = (std::sqrt(5.0) - 1) / 2;
  double left = best / kGrid, right = best * kGrid;
  for (int i = 0; i < kSections; ++i) {
    const double width = golden * (right - left);
    if (at(right - width).error < at(left + width).error) {
      right = left + width;
    } else {
      left = right - width;
    }
  }
  if (const Fit refined = at((left + right) / 2); refined.error < fit.error) fit = refined;
  Exponential curve = fit.curve;
  curve.scale *= std::exp(-curve.rate * low / range);
  curve.rate /= range;
  return curve;
}

}  // namespace harpe::plan
