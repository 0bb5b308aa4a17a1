#include "harpe/lab/carbon_replay/chase_forecast.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <utility>

namespace harpe::lab {
namespace {

constexpr std::size_t kMostPoints = 4000;
constexpr int kMostSteps = 10'000'000;
constexpr double kFlat = 1e-12;  // curvature of two equal points

double kernel(std::span<const double> a, std::span<const double> b, double gamma) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::exp(-gamma * sum);
}

/// A solver over variables a[i] for excess above and a[n + i] for excess below the tube, both from
/// 0 to C, with beta_i = a[i] - a[n + i].
class Solver {
 public:
  Solver(const std::vector<std::vector<double>>& points, std::span<const double> targets,
         const SupportVectorOptions& options)
      : n_(points.size()), options_(options), kernel_(n_ * n_), a_(2 * n_, 0), gradient_(2 * n_) {
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < n_; ++j) {
        kernel_[i * n_ + j] = kernel(points[i], points[j], options.gamma);
      }
      gradient_[i] = options.epsilon - targets[i];
      gradient_[n_ + i] = options.epsilon + targets[i];
    }
  }

  bool solve() {
    for (int step = 0; step < kMostSteps; ++step) {
      const auto pair = worst_pair();
      if (!pair) return true;
      improve(pair->first, pair->second);
    }
    return false;
  }

  std::vector<double> beta() const {
    std::vector<double> beta(n_);
    for (std::size_t i = 0; i < n_; ++i) beta[i] = a_[i] - a_[n_ + i];
    return beta;
  }

  /// Returns the mean over the variables strictly within their bounds; without any, the middle of
  /// the range that the bounds allow.
  double offset() const {
    double sum = 0, up = std::numeric_limits<double>::infinity(), down = -up;
    std::size_t free = 0;
    for (std::size_t t = 0; t < 2 * n_; ++t) {
      const double value = -sign(t) * gradient_[t];
      if (a_[t] > 0 && a_[t] < options_.c) {
        sum += value;
        ++free;
      } else if (may_rise(t)) {
        down = std::max(down, value);
      } else {
        up = std::min(up, value);
      }
    }
    return free > 0 ? sum / static_cast<double>(free) : (up + down) / 2;
  }

 private:
  double sign(std::size_t t) const { return t < n_ ? 1 : -1; }
  double q(std::size_t s, std::size_t t) const {
    return sign(s) * sign(t) * kernel_[(s % n_) * n_ + t % n_];
  }
  /// Return true if sign * a can grow, or shrink.
  bool may_rise(std::size_t t) const { return t < n_ ? a_[t] < options_.c : a_[t] > 0; }
  bool may_fall(std::size_t t) const { return t < n_ ? a_[t] > 0 : a_[t] < options_.c; }

  /// Returns the pair whose change lowers the objective most by a quadratic model; nullopt
  /// at the minimum.
  std::optional<std::pair<std::size_t, std::size_t>> worst_pair() const {
    double highest = -std::numeric_limits<double>::infinity();
    std::size_t i = 0;
    for (std::size_t t = 0; t < 2 * n_; ++t) {
      if (may_rise(t) && -sign(t) * gradient_[t] > highest) {
        highest = -sign(t) * gradient_[t];
        i = t;
      }
    }
    double best = 0;
    std::optional<std::size_t> j;
    for (std::size_t t = 0; t < 2 * n_; ++t) {
      if (!may_fall(t)) continue;
      const double violation = highest + sign(t) * gradient_[t];
      if (violation <= options_.tolerance) continue;
      const double gain = violation * violation / curvature(i, t);
      if (!j || gain > best) {
        best = gain;
        j = t;
      }
    }
    if (!j) return std::nullopt;
    return std::pair(i, *j);
  }

  double curvature(std::size_t i, std::size_t j) const {
    return std::max(kFlat, q(i, i) + q(j, j) - 2 * sign(i) * sign(j) * q(i, j));
  }

  /// Moves sign * a of i up and of j down, as far as it lowers the objective and the bounds allow.
  void improve(std::size_t i, std::size_t j) {
    const double violation = -sign(i) * gradient_[i] + sign(j) * gradient_[j];
    double move = violation / curvature(i, j);
    move = std::min(move, sign(i) > 0 ? options_.c - a_[i] : a_[i]);
    move = std::min(move, sign(j) > 0 ? a_[j] : options_.c - a_[j]);
    a_[i] = std::clamp(a_[i] + sign(i) * move, 0.0, options_.c);
    a_[j] = std::clamp(a_[j] - sign(j) * move, 0.0, options_.c);
    for (std::size_t t = 0; t < 2 * n_; ++t) {
      gradient_[t] += (q(t, i) * sign(i) - q(t, j) * sign(j)) * move;
    }
  }

  std::size_t n_;
  const SupportVectorOptions& options_;
  std::vector<double> kernel_, a_, gradient_;
};

}  // namespace

Result<ChaseForecast> chase_forecast(const carbon::IntensitySeries& series, std::size_t first,
                                     const SupportVectorOptions& options) {
  const std::size_t day = series.slots_per_day();
  if (first < day || first >= series.size()) {
    return Error::invalid("Chase's forecasts begin a day or more into a series, before its end");
  }
  const auto before = [&](std::size_t i) {
    return series.values[i > 0 ? i - 1 : series.size() - 1];
  };
  for (std::size_t i = first - day; i < series.size(); ++i) {
    if (!series.known(i) || std::isnan(before(i))) {
      return Error::invalid("Chase's forecasts need a series without gaps");
    }
  }
  const auto features = [&](std::size_t i) {
    const double angle =
        2 * std::numbers::pi * static_cast<double>(i % day + 1) / static_cast<double>(day);
    return std::vector<double>{std::sin(angle), std::cos(angle), before(i)};
  };
  std::vector<std::vector<double>> points;
  std::vector<double> targets;
  for (std::size_t i = first - day; i < first; ++i) {
    points.push_back(features(i));
    targets.push_back(series.values[i]);
  }
  const auto regression =
      HARPE_TRY(SupportVectorRegression::fit(std::move(points), targets, options));
  ChaseForecast forecast;
  for (std::size_t i = first; i < series.size(); ++i) {
    const double value = series.values[i];
    forecast.expected.push_back(regression(features(i)));
    forecast.percentage_error += std::abs(forecast.expected.back() - value) / value;
    forecast.persistence_error += std::abs(before(i) - value) / value;
  }
  const auto steps = static_cast<double>(forecast.expected.size());
  forecast.percentage_error /= steps;
  forecast.persistence_error /= steps;
  return forecast;
}

Result<SupportVectorRegression> SupportVectorRegression::fit(
    std::vector<std::vector<double>> points, std::span<const double> targets,
    const SupportVectorOptions& options) {
  if (points.empty() || points.size() > kMostPoints || points.size() != targets.size()) {
    return Error::invalid("a support vector regression needs 1 to 4000 points with a target each");
  }
  for (const auto& point : points) {
    if (point.size() != points[0].size()) return Error::invalid("the points differ in length");
  }
  if (!(options.c > 0) || !(options.gamma > 0) || !(options.tolerance > 0) ||
      !(options.epsilon >= 0)) {
    return Error::invalid("C, gamma and the tolerance must be above 0, epsilon not below");
  }
  Solver solver(points, targets, options);
  if (!solver.solve()) return Error::internal("a support vector regression did not converge");
  SupportVectorRegression regression;
  regression.beta_ = solver.beta();
  regression.offset_ = solver.offset();
  regression.gamma_ = options.gamma;
  regression.points_ = std::move(points);
  return regression;
}

double SupportVectorRegression::operator()(std::span<const double> point) const {
  double sum = offset_;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    if (beta_[i] != 0) sum += beta_[i] * kernel(points_[i], point, gamma_);
  }
  return sum;
}

}  // namespace harpe::lab
