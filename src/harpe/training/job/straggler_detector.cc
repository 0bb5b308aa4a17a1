#include "harpe/training/job/straggler_detector.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>
#include <utility>

#include "harpe/base/statistics.h"

namespace harpe::training {
namespace {

constexpr double kForgetting = 0.05;  // weight of an iteration in the running mean of deviations
/// The median of 3 (8) normal values has 0.67 (0.44) of their standard deviation.
constexpr double kFastBound = 5.5 * 0.67, kSlowBound = 5.5 * 0.44;
constexpr int kFast = 3, kHealing = 2;
/// A factor this close to 1 counts as 1, because profiles are not more exact.
constexpr double kAlmostOne = 0.01;
constexpr int kFewestGroups = 3;  // least number of late groups for random lateness
/// Largest share of pipelines that may differ from their stage.
constexpr double kExceptions = 0.1;

/// Returns the median. Reorders the values.
float median(std::span<float> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double snapped(double factor) {
  return std::abs(factor - 1) < kAlmostOne ? 1 : factor;
}

}  // namespace

StragglerDetector::StragglerDetector(JobShape shape, Options options)
    : shape_(shape),
      options_(options),
      latest_(static_cast<std::size_t>(options.window)),
      latest_group_(static_cast<std::size_t>(options.window)) {}

void StragglerDetector::reset() {
  const double deviation = deviation_;
  *this = StragglerDetector(shape_, options_);
  deviation_ = deviation;
}

void StragglerDetector::make_series() {
  if (!series_.empty()) return;
  series_.resize(static_cast<std::size_t>(shape_.groups()));
  scratch_.resize(static_cast<std::size_t>(std::max(shape_.groups(), kHistory)));
}

double StragglerDetector::measured(std::size_t group) const {
  if (series_.empty()) return 1;
  const Series& series = series_[group];
  if (series.held == 0) return series.factor;
  std::array<float, kHistory> newest{};
  for (int i = 0; i < series.held; ++i)
    newest[i] = series.newest[(series.next + kHistory - 1 - i) % kHistory];
  return median(std::span(newest).first(series.held));
}

void StragglerDetector::assume(std::size_t group, double factor) {
  make_series();
  series_[group] = {};
  series_[group].factor = snapped(factor);
  find_slow();
}

void StragglerDetector::rescale(int stage, double by) {
  make_series();
  for (int pipeline = 0; pipeline < shape_.data; ++pipeline) {
    Series& series = series_[shape_.group(pipeline, stage)];
    series.factor = snapped(series.factor / by);
    if (series.factor == 1) series.since = -1;
    series.held = series.next = 0;
  }
  find_slow();
}

/// Learns the deviation from the differences between iterations of each group. Differences to the
/// factors would be wrong with few groups: a group that changed for long would pass for noise.
void StragglerDetector::learn_deviation(std::span<const float> relative) {
  std::size_t known = 0;
  for (std::size_t group = 0; group < series_.size(); ++group) {
    const Series& series = series_[group];
    if (!std::isfinite(relative[group]) || series.held == 0) continue;
    // Compares with the oldest value, because neighbours may be alike for some iterations.
    const float before = series.newest[(series.next + kHistory - series.held) % kHistory];
    scratch_[known++] = std::abs(relative[group] - before) / static_cast<float>(series.factor);
  }
  if (known == 0) return;
  const double now = kMadToSigma / std::numbers::sqrt2 * median(std::span(scratch_).first(known));
  // A simultaneous change of all groups is not noise.
  const double bounded = deviation_ > 0 ? std::min(now, 3 * deviation()) : std::min(now, 0.02);
  ++learned_;
  const double weight = std::max(1.0 / learned_, kForgetting);
  deviation_ += weight * (bounded - deviation_);
}

/// Returns true if the newest `count` values show another factor. Sets `level` to their median.
bool StragglerDetector::moved(const Series& series, int count, double bound, double& level) const {
  if (series.held < count) return false;
  std::array<float, kHistory> newest{};
  int above = 0, below = 0;
  for (int i = 0; i < count; ++i) {
    const float value = series.newest[(series.next + kHistory - 1 - i) % kHistory];
    newest[i] = value;
    above += value > series.factor * (1 + bound / 2) ? 1 : 0;
    below += value < series.factor * (1 - bound / 2) ? 1 : 0;
  }
  level = median(std::span(newest).first(count));
  const int needed = count - count / 4;
  return std::abs(level / series.factor - 1) > bound && std::max(above, below) >= needed;
}

bool StragglerDetector::judge(Series& series) const {
  const double noise = deviation();
  const double fast = std::max(options_.least, kFastBound * noise);
  double level = 1;
  int told = kFast;
  // If lateness is random, a group is late a few times in a row by chance.
  bool changed = !random_ && moved(series, kFast, fast, level);
  if (!changed && series.factor > 1) {
    told = kHealing;
    changed = moved(series, kHealing, fast, level) && level < series.factor;
  }
  if (!changed) {
    told = kHistory;
    changed = moved(series, kHistory, std::max(options_.least, kSlowBound * noise), level);
  }
  if (!changed) return false;
  const bool was_usual = series.factor == 1;
  series.factor = snapped(level);
  if (was_usual) series.since = series.at[(series.next + kHistory - told) % kHistory];
  if (series.factor == 1) series.since = -1;
  series.held = static_cast<std::uint8_t>(told);
  return true;
}

bool StragglerDetector::add(std::int64_t iteration, std::span<const float> relative) {
  const auto groups = static_cast<std::size_t>(shape_.groups());
  if (iteration <= newest_ || relative.size() != groups) return false;
  make_series();
  newest_ = iteration;
  learn_deviation(relative);
  const double bound = std::max(options_.late, kFastBound * deviation());
  float latest = 1;
  std::int32_t latest_group = -1;
  bool changed = false;
  for (std::size_t group = 0; group < series_.size(); ++group) {
    const float value = relative[group];
    if (!std::isfinite(value) || value <= 0) continue;
    Series& series = series_[group];
    series.newest[series.next] = value;
    series.at[series.next] = iteration;
    series.next = static_cast<std::uint8_t>((series.next + 1) % kHistory);
    series.held = static_cast<std::uint8_t>(std::min(series.held + 1, kHistory));
    const auto beyond = static_cast<float>(value / series.factor);
    if (beyond > 1 + bound && beyond > latest) {
      latest = beyond;
      latest_group = static_cast<std::int32_t>(group);
    }
    changed = judge(series) || changed;
  }
  const auto slot = static_cast<std::size_t>(iterations_ % options_.window);
  latest_[slot] = latest;
  latest_group_[slot] = latest_group;
  ++iterations_;
  if (changed) find_slow();
  find_random();
  return changed;
}

/// Separates stages from groups. At least nine tenths of the pipelines reach a stage's factor.
void StragglerDetector::find_slow() {
  workers_.clear();
  stages_.clear();
  const auto exceptions = static_cast<std::size_t>(kExceptions * (shape_.data - 1));
  const double noise = std::max(options_.least, kFastBound * deviation());
  for (int stage = 0; stage < shape_.stages; ++stage) {
    std::int64_t since = 0;
    for (int pipeline = 0; pipeline < shape_.data; ++pipeline) {
      const Series& series = series_[shape_.group(pipeline, stage)];
      scratch_[pipeline] = static_cast<float>(series.factor);
      since = std::max(since, series.since);
    }
    const std::span<float> factors = std::span(scratch_).first(shape_.data);
    std::ranges::sort(factors);
    double usual = 1;
    const double least = factors[exceptions], most = factors[factors.size() - 1 - exceptions];
    if (least > 1) usual = least;
    if (most < 1) usual = most;
    // Factors that differ by no more than noise are replaced by their median.
    if (usual != 1 && most / least < 1 + noise) usual = factors[factors.size() / 2];
    if (usual != 1) stages_.push_back({.stage = stage, .factor = usual, .since = since});
    for (int pipeline = 0; pipeline < shape_.data; ++pipeline) {
      const Series& series = series_[shape_.group(pipeline, stage)];
      const double factor = series.factor / usual;
      if (factor <= 1 + (usual == 1 ? kAlmostOne : noise) || series.factor == 1) continue;
      workers_.push_back(
          {.pipeline = pipeline, .stage = stage, .factor = factor, .since = series.since});
    }
  }
  std::ranges::sort(workers_, {}, [](const SlowWorker& one) {
    return std::tuple(-one.factor, one.stage, one.pipeline);
  });
  std::ranges::sort(stages_, {},
                    [](const SlowStage& one) { return std::pair(-one.factor, one.stage); });
}

void StragglerDetector::find_random() {
  random_.reset();
  if (iterations_ < options_.window) return;
  std::array<float, 64> factors{};
  std::array<std::int32_t, 64> groups{};
  std::size_t late = 0;
  for (std::size_t i = 0; i < latest_.size(); ++i) {
    if (latest_group_[i] < 0) continue;
    factors[late] = latest_[i];
    groups[late++] = latest_group_[i];
  }
  if (static_cast<int>(late) < options_.needed) return;
  const std::span<std::int32_t> of_groups = std::span(groups).first(late);
  std::ranges::sort(of_groups);
  const auto repeated = std::ranges::unique(of_groups);
  const auto distinct = static_cast<int>(late - repeated.size());
  if (distinct < std::min(kFewestGroups, shape_.groups())) return;
  const std::span<float> of_factors = std::span(factors).first(late);
  random_ = {.median = median(of_factors),
             .most = *std::ranges::max_element(of_factors),
             .groups = distinct};
}

}  // namespace harpe::training
