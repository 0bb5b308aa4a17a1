#include "harpe/measure/counter_steps.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace harpe {
namespace {

constexpr std::size_t kRemembered = 32;
constexpr std::size_t kEnough = 8;
constexpr int kFirstIterations = 10;
constexpr double kLongestGap = 10;     // periods without a reading
constexpr double kLeastJitter = 2e-4;  // s

double uniform_sigma(double width) {
  return width / std::sqrt(12.0);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

TruncatedNormal truncated_normal(double mean, double sigma, double low, double high) {
  const double a = (low - mean) / sigma, b = (high - mean) / sigma;
  TruncatedNormal inside;
  inside.share = (std::erf(b / std::numbers::sqrt2) - std::erf(a / std::numbers::sqrt2)) / 2;
  if (!inside.likely()) {
    inside.mean = (low + high) / 2;
    inside.variance = (high - low) * (high - low) / 12;
    return inside;
  }
  const double scale = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  const double at_a = scale * std::exp(-a * a / 2), at_b = scale * std::exp(-b * b / 2);
  const double shift = (at_a - at_b) / inside.share;
  const double variance = 1 + (a * at_a - b * at_b) / inside.share - shift * shift;
  inside.mean = std::clamp(mean + sigma * shift, low, high);
  inside.variance = sigma * sigma * std::clamp(variance, 1e-6, 1.0);
  return inside;
}

void CounterSteps::restart() {
  last_.reset();
  brackets_.clear();
  grid_.reset();
  regular_ = false;
}

std::optional<Joules> CounterSteps::last_value() const {
  if (!last_) return std::nullopt;
  return last_->value;
}

std::optional<CounterStep> CounterSteps::add(Instant time, Seconds spread, Joules value) {
  if (last_ && value < last_->value) restart();
  if (!last_) {
    if (brackets_.empty()) origin_ = time;
    last_ = Reading{time, spread, value};
    return std::nullopt;
  }
  if (value == last_->value) {
    last_->time = time;
    last_->spread = spread;
    return std::nullopt;
  }
  const double high = (time - origin_).value + spread.value;
  double low = (last_->time - origin_).value - last_->spread.value;
  const double between_readings = high - low;
  if (between_readings > kLongestGap * period().value) {  // the count of periods would be a guess
    brackets_.clear();
    grid_.reset();
  }
  low = std::max(low, high - period().value - 2 * spread.value);
  brackets_.push_back(
      {.low = std::min(low, high), .high = high, .between_readings = between_readings});
  if (brackets_.size() > kRemembered) brackets_.pop_front();
  last_ = Reading{time, spread, value};
  return newest_step(time, value);
}

bool CounterSteps::number_steps() {
  if (brackets_.size() < kEnough) return false;
  std::vector<double> distances, gaps;
  for (std::size_t i = 1; i < brackets_.size(); ++i) {
    distances.push_back(brackets_[i].middle() - brackets_[i - 1].middle());
    gaps.push_back(brackets_[i].between_readings);
  }
  const double distance = median(distances);
  if (distance < 1.5 * median(gaps)) return false;
  const double period = grid_ ? grid_->slope : distance;
  if (!grid_) {
    brackets_[0].index = 0;
    for (std::size_t i = 1; i < brackets_.size(); ++i) {
      brackets_[i].index = brackets_[i - 1].index +
                           std::max<std::int64_t>(1, std::llround(distances[i - 1] / period));
    }
    return true;
  }
  const auto newest = std::prev(brackets_.end());
  newest->index =
      std::prev(newest)->index + std::max<std::int64_t>(1, std::llround(distances.back() / period));
  return true;
}

/// One step of expectation maximisation: where each step lies in its bracket given the grid, then
/// the grid that fits those best. What a bracket tells is little where the grid passes through its
/// middle anyway: readings that keep step with the counter teach nothing, and the variance says so.
void CounterSteps::improve_grid() {
  Grid& grid = *grid_;
  const auto count = static_cast<double>(brackets_.size());
  const std::int64_t newest = brackets_.back().index;
  double sum_x = 0, sum_xx = 0, sum_t = 0, sum_xt = 0;
  double told = 0, told_x = 0, told_xx = 0;
  std::vector<TruncatedNormal> places;
  places.reserve(brackets_.size());
  for (const Bracket& bracket : brackets_) {
    const TruncatedNormal place =
        truncated_normal(grid.at(bracket.index), grid.jitter, bracket.low, bracket.high);
    const auto x = static_cast<double>(bracket.index - newest);
    sum_x += x;
    sum_xx += x * x;
    sum_t += place.mean;
    sum_xt += x * place.mean;
    const double square = grid.jitter * grid.jitter;
    const double information =
        place.likely() ? std::max(0.0, 1 - place.variance / square) / square : 0;
    told += information;
    told_x += (x - 1) * information;
    told_xx += (x - 1) * (x - 1) * information;
    places.push_back(place);
  }
  const double determinant = count * sum_xx - sum_x * sum_x;
  grid.slope = (count * sum_xt - sum_x * sum_t) / determinant;
  grid.phase = (sum_t - grid.slope * sum_x) / count;
  grid.reference = newest;
  double stray = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const double offset = places[i].mean - grid.at(brackets_[i].index);
    stray += offset * offset + places[i].variance;
  }
  grid.jitter = std::max(kLeastJitter, std::sqrt(stray / count));
  const double information = told * told_xx - told_x * told_x;
  const double wide = brackets_.back().width();
  grid.variance =
      information > 0 ? std::min(told_xx / information, wide * wide * 4) : wide * wide * 4;
  period_ = grid.slope;
}

CounterStep CounterSteps::newest_step(Instant reading, Joules value) {
  regular_ = false;
  const bool numbered = number_steps();
  const Bracket& newest = brackets_.back();
  CounterStep step{.time = origin_ + Seconds{newest.middle()},
                   .sigma = {uniform_sigma(newest.width())},
                   .value = value,
                   .earliest = origin_ + Seconds{newest.low},
                   .latest = origin_ + Seconds{newest.high}};
  if (!numbered) {
    grid_.reset();
    next_earliest_ = (reading - origin_).value;
    return step;
  }
  if (grid_) {
    const double sigma = std::sqrt(grid_->variance + 1.2 * grid_->jitter * grid_->jitter);
    const TruncatedNormal place =
        truncated_normal(grid_->at(newest.index), sigma, newest.low, newest.high);
    step.time = origin_ + Seconds{place.mean};
    step.sigma = {std::sqrt(place.variance)};
    regular_ = place.likely();
    improve_grid();
  } else {
    const double distance =
        (newest.middle() - brackets_.front().middle()) / static_cast<double>(newest.index);
    grid_ = {.reference = newest.index,
             .phase = newest.middle(),
             .slope = distance,
             .jitter = uniform_sigma(newest.width())};
    for (int i = 0; i < kFirstIterations; ++i) improve_grid();
  }
  next_earliest_ = grid_->at(newest.index + 1) - 3 * std::hypot(grid_->jitter, step.sigma.value);
  return step;
}

bool CounterSteps::due(Instant now, Seconds interval) const {
  if (brackets_.size() < kEnough) return true;
  return (now - origin_).value + interval.value >= next_earliest_;
}

}  // namespace harpe
