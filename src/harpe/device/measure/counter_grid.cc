#include "harpe/device/measure/counter_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "harpe/base/statistics.h"

namespace harpe::device {
namespace {

constexpr std::size_t kEnough = 16;
constexpr double kLongestGap = 10;    // periods; steps are not counted over longer gaps
constexpr double kIrregular = 0.2;    // of the period: jitter of irregular steps
constexpr double kLeastSigma = 1e-4;  // s
constexpr double kLeastShare = 1e-6;  // least likelihood of a late reading
constexpr int kIterations = 4;
/// Number of neighbours that count as one, because much the same readings determine their times.
constexpr double kAlike = 8;
constexpr double kMedianOfNormal = 0.6745;  // median of the absolute value, in standard deviations

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Time as a function of the number: `middle` + `slope` * (number - `center`).
struct Line {
  double center = 0, middle = 0, slope = 0;
  double weight = 0, spread = 0;  ///< sums of weights, and of weights x squared distance
  double at(double number) const { return middle + slope * (number - center); }
  double variance(double number) const {
    return kAlike * (1 / weight + square(number - center) / spread);
  }
};

Line fitted(std::span<const double> numbers, std::span<const double> times,
            std::span<const double> weights) {
  Line line;
  double time = 0, product = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    line.weight += weights[i];
    line.center += weights[i] * numbers[i];
    time += weights[i] * times[i];
  }
  line.center /= line.weight;
  line.middle = time / line.weight;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    line.spread += weights[i] * square(numbers[i] - line.center);
    product += weights[i] * (numbers[i] - line.center) * (times[i] - line.middle);
  }
  line.slope = product / line.spread;
  return line;
}

/// Returns the newest steps that can be numbered. Adds their numbers to `numbers`.
std::span<CounterEdge> countable(std::vector<CounterEdge>& edges, std::vector<double>& numbers) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < edges.size(); ++i) {
    gaps.push_back((edges[i].time - edges[i - 1].time).value);
  }
  if (gaps.size() < kEnough) return {};
  const double period = median(gaps);
  std::size_t first = 0;
  for (std::size_t i = 1; i < edges.size(); ++i) {
    const bool same = edges[i].restarts == edges[i - 1].restarts;
    if (!same || gaps[i - 1] > kLongestGap * period) first = i;
  }
  // Numbers the steps from the first on, with a period that becomes more precise, so that one late
  // reading does not shift all later numbers.
  double each = period;
  for (std::size_t i = first; i < edges.size(); ++i) {
    const double since = (edges[i].time - edges[first].time).value;
    const double number = i == first ? 0 : std::max(numbers.back() + 1, std::round(since / each));
    if (number >= kEnough) each = since / number;
    numbers.push_back(number);
  }
  return std::span(edges).subspan(first);
}

/// Returns the line through most of the steps; nullopt if they are irregular.
std::optional<Line> robust_line(std::span<const CounterEdge> steps, std::span<const double> numbers,
                                Instant origin) {
  std::vector<double> times, variances, weights;
  for (const CounterEdge& step : steps) {
    times.push_back((step.time - origin).value);
    variances.push_back(square(std::max(step.sigma.value, kLeastSigma)));
    weights.push_back(1 / variances.back());
  }
  Line line = fitted(numbers, times, weights);
  double deviation = 0;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    std::vector<double> distances;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      distances.push_back(std::abs(times[i] - line.at(numbers[i])));
    }
    deviation = std::max(kLeastSigma, median(distances) / kMedianOfNormal);
    // Distant steps are late readings: their pull on the line is limited to that of nearer steps.
    for (std::size_t i = 0; i < steps.size(); ++i) {
      weights[i] = std::min(1.0, 2 * deviation / distances[i]) / variances[i];
    }
    line = fitted(numbers, times, weights);
  }
  if (deviation > kIrregular * line.slope) return std::nullopt;
  return line;
}

}  // namespace

std::vector<CounterEdge> on_their_grid(std::vector<CounterEdge> edges) {
  std::vector<double> numbers;
  const std::span<CounterEdge> steps = countable(edges, numbers);
  if (steps.size() < kEnough) return edges;
  const Instant origin = steps.front().time;
  const auto since_origin = [origin](Instant time) { return (time - origin).value; };
  const std::optional<Line> line = robust_line(steps, numbers, origin);
  if (!line) return edges;
  /// Returns the time of a step given the jitter of steps.
  const auto place = [&](std::size_t i, double jitter) {
    return truncated_normal(line->at(numbers[i]),
                            std::sqrt(square(jitter) + line->variance(numbers[i])),
                            since_origin(steps[i].earliest), since_origin(steps[i].latest));
  };
  double best = kLeastSigma, most = -std::numeric_limits<double>::infinity();
  for (double jitter = kLeastSigma; jitter < kIrregular * line->slope; jitter *= 2) {
    double likelihood = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      likelihood += std::log(std::max(place(i, jitter).share, kLeastShare));
    }
    if (likelihood <= most) continue;
    most = likelihood;
    best = jitter;
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const TruncatedNormal found = place(i, best);
    if (!found.likely()) continue;
    steps[i].time = origin + Seconds{found.mean};
    steps[i].sigma = {std::max(kLeastSigma, std::sqrt(found.variance))};
  }
  return edges;
}

}  // namespace harpe::device
