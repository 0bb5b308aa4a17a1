#include "harpe/job/straggler_detector.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

namespace harpe {
namespace {

constexpr int kHistory = 8;              // factors kept of a spell
constexpr double kToDeviation = 1.4826;  // from the median absolute deviation, normal distribution
constexpr std::size_t kFewestPipelines = 3;  // whose median says what is usual
constexpr double kForgetting = 0.05;         // of the running mean of deviations, an iteration

/// Reorders the values.
float median(std::span<float> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

StragglerDetector::StragglerDetector(JobShape shape, Options options)
    : shape_(shape),
      options_(options),
      groups_(static_cast<std::size_t>(shape.groups())),
      of_stages_(static_cast<std::size_t>(shape.stages)),
      factors_(static_cast<std::size_t>(shape.groups())),
      scratch_(static_cast<std::size_t>(shape.groups())),
      latest_(static_cast<std::size_t>(options.window)),
      latest_group_(static_cast<std::size_t>(options.window)) {}

void StragglerDetector::reset() {
  *this = StragglerDetector(shape_, options_);
}

double StragglerDetector::middle_factor(const Spell& spell) {
  std::array<float, kHistory> factors = spell.factors;
  return median(std::span(factors).first(spell.held));
}

void StragglerDetector::judge(Spell& spell, std::int64_t iteration, float factor, bool late) const {
  const std::uint32_t mask = options_.window >= 32 ? ~0U : (1U << options_.window) - 1;
  spell.late = (spell.late << 1 | (late ? 1U : 0U)) & mask;
  spell.known = (spell.known << 1 | 1U) & mask;
  if (late) {
    if (spell.since < 0) spell.since = iteration;
    spell.factors[spell.next] = factor;
    spell.next = static_cast<std::uint8_t>((spell.next + 1) % kHistory);
    spell.held = static_cast<std::uint8_t>(std::min(spell.held + 1, kHistory));
  }
  if (std::popcount(spell.late) >= options_.needed) spell.standing = true;
  const std::uint32_t newest = (1U << options_.healed) - 1;
  if ((spell.late & newest) == 0 && (spell.known & newest) == newest) {
    spell.standing = false;
    spell.since = -1;
    spell.held = spell.next = 0;
    if (!late) spell.late = 0;  // a new spell begins from nothing
  }
}

/// Fills `factors_`: each group relative to the middle of its stage.
void StragglerDetector::compare(std::int64_t iteration, std::span<const float> relative) {
  for (int stage = 0; stage < shape_.stages; ++stage) {
    std::size_t known = 0, late = 0;
    for (int pipeline = 0; pipeline < shape_.data; ++pipeline) {
      const float value = relative[shape_.group(pipeline, stage)];
      if (!std::isfinite(value) || value <= 0) continue;
      scratch_[known++] = value;
      late += value > options_.ratio ? 1 : 0;
    }
    if (known == 0) continue;
    const float middle = median(std::span(scratch_).first(known));
    // Of few pipelines nobody can tell whether the stage or a group is slow: it is the stage where
    // all are.
    const bool enough = known >= kFewestPipelines;
    const bool stage_late = enough ? middle > options_.ratio : late == known;
    judge(of_stages_[static_cast<std::size_t>(stage)], iteration, middle, stage_late);
    const float usual = enough || stage_late ? middle : 1.0F;
    for (int pipeline = 0; pipeline < shape_.data; ++pipeline) {
      const std::size_t group = shape_.group(pipeline, stage);
      if (std::isfinite(relative[group]) && relative[group] > 0) {
        factors_[group] = relative[group] / usual;
      }
    }
  }
}

/// How far groups usually are from the middle of their stages.
double StragglerDetector::deviation() {
  std::size_t known = 0;
  for (const float factor : factors_) {
    if (!std::isnan(factor)) scratch_[known++] = std::abs(factor - 1);
  }
  if (known == 0) return options_.least_deviation;
  const double now = kToDeviation * median(std::span(scratch_).first(known));
  const double weight = std::max(1.0 / (iterations_ + 1), kForgetting);
  deviation_ += weight * (now - deviation_);
  return std::max(deviation_, options_.least_deviation);
}

void StragglerDetector::add(std::int64_t iteration, std::span<const float> relative) {
  if (iteration <= newest_ || relative.size() != groups_.size()) return;
  newest_ = iteration;
  std::ranges::fill(factors_, std::numeric_limits<float>::quiet_NaN());
  compare(iteration, relative);
  const double bound = 1 + std::max(options_.ratio - 1, options_.score * deviation());
  float latest = 1;
  std::int32_t latest_group = -1;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const float factor = factors_[group];
    if (std::isnan(factor)) continue;
    judge(groups_[group], iteration, factor, factor > bound);
    if (factor > options_.ratio && factor > latest) {
      latest = factor;
      latest_group = static_cast<std::int32_t>(group);
    }
  }
  const auto slot = static_cast<std::size_t>(iterations_ % options_.window);
  latest_[slot] = latest;
  latest_group_[slot] = latest_group;
  ++iterations_;
  find_workers();
  find_random();
}

void StragglerDetector::find_workers() {
  workers_.clear();
  for (int pipeline = 0; pipeline < shape_.data; ++pipeline) {
    for (int stage = 0; stage < shape_.stages; ++stage) {
      const Spell& spell = groups_[shape_.group(pipeline, stage)];
      if (!spell.standing) continue;
      workers_.push_back({pipeline, stage, middle_factor(spell), spell.since});
    }
  }
  std::ranges::sort(workers_, std::greater(), &SlowWorker::factor);
  stages_.clear();
  for (int stage = 0; stage < shape_.stages; ++stage) {
    const Spell& spell = of_stages_[static_cast<std::size_t>(stage)];
    if (spell.standing) stages_.push_back({stage, middle_factor(spell), spell.since});
  }
  std::ranges::sort(stages_, std::greater(), &SlowStage::factor);
}

void StragglerDetector::find_random() {
  random_.reset();
  if (iterations_ < options_.window || !workers_.empty()) return;
  std::vector<float> factors;
  std::vector<std::int32_t> groups;
  for (std::size_t i = 0; i < latest_.size(); ++i) {
    if (latest_group_[i] < 0) continue;
    factors.push_back(latest_[i]);
    groups.push_back(latest_group_[i]);
  }
  if (static_cast<int>(factors.size()) < options_.needed) return;
  std::ranges::sort(groups);
  const auto repeated = std::ranges::unique(groups);
  random_ = {.median = median(factors),
             .most = *std::ranges::max_element(factors),
             .groups = static_cast<int>(groups.size() - repeated.size())};
}

}  // namespace harpe
