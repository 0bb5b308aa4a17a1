#include "harpe/training/job/stage_profiling.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/base/statistics.h"

namespace harpe::training {
namespace {

constexpr double kFaster = 0.05;  // than at a higher clock: more than noise and throttling do
constexpr int kMostAnew = 2;

/// Returns at most `most_clocks` clocks from the lowest that is wanted: both ends, and evenly
/// between.
std::vector<Megahertz> thinned(std::vector<Megahertz> clocks, const ProfilingOptions& options) {
  const auto below =
      std::ranges::find_if(clocks, [&](Megahertz clock) { return clock < options.lowest_clock; });
  // At least the highest is measured.
  clocks.erase(std::max(below, std::min(clocks.begin() + 1, clocks.end())), clocks.end());
  const auto most = static_cast<std::size_t>(options.most_clocks);
  if (clocks.size() <= most) return clocks;
  std::vector<Megahertz> kept;
  for (std::size_t i = 0; i < most; ++i)
    kept.push_back(clocks[i * (clocks.size() - 1) / (most - 1)]);
  return kept;
}

}  // namespace

double most_slowing(Megahertz from, Megahertz to) {
  return to > Megahertz{0} ? static_cast<double>(from.value) / to.value : 1;
}

bool is_usable(const GroupIteration& group, const JobShape& shape,
               const ProfilingOptions& options) {
  const bool is_at_clock = options.as_is ? group.clock > Megahertz{0} : !group.throttled;
  return group.ranks >= shape.tensor && is_at_clock;
}

StageProfiling::StageProfiling(const JobShape& shape, const plan::ScheduleWork& work, int stage,
                               std::vector<Megahertz> clocks, const ProfilingOptions& options,
                               std::vector<MeasuredClock> known)
    : shape_(shape),
      work_(&work),
      stage_(stage),
      options_(options),
      measured_(std::move(known)),
      ended_(!measured_.empty()),
      counted_(static_cast<std::size_t>(shape.data)) {
  if (options_.as_is) {
    supported_ = std::move(clocks);
    clocks_ = {Megahertz{0}};
  } else {
    clocks_ = thinned(std::move(clocks), options_);
  }
  clear();
}

double StageProfiling::slowing(std::size_t ahead, bool since_last) const {
  const std::size_t at = position_ + ahead;
  if (ended_ || at >= clocks_.size()) return 1;
  return most_slowing(clocks_[since_last && position_ > 0 ? position_ - 1 : 0], clocks_[at]);
}

void StageProfiling::clear() {
  throttled_ = 0;
  const std::size_t items = work().size();
  samples_ = {.time = std::vector<std::vector<double>>(items),
              .energy = std::vector<std::vector<double>>(items),
              .error = std::vector<std::vector<double>>(items),
              .sum_time = std::vector<double>(items * static_cast<std::size_t>(shape_.data)),
              .counts = std::vector<int>(static_cast<std::size_t>(shape_.data)),
              .iteration_time = {},
              .clock = {}};
}

void StageProfiling::add(const FinishedIteration& iteration, const std::vector<bool>& left_out,
                         std::uint64_t version, Seconds time) {
  const auto is_throttled = [&](int pipeline) {
    return iteration.groups[shape_.group(pipeline, stage_)].throttled;
  };
  bool throttled = false;
  for (int pipeline = 0; pipeline < shape_.data && !options_.as_is; ++pipeline)
    throttled = throttled || is_throttled(pipeline);
  throttled_ += throttled ? 1 : 0;

  const std::size_t items = work().size();
  std::vector<double> sum_time(items), sum_energy(items), sum_error(items);
  int groups = 0;
  for (int pipeline = 0; pipeline < shape_.data; ++pipeline) {
    const std::size_t number = shape_.group(pipeline, stage_);
    const GroupIteration& group = iteration.groups[number];
    if (left_out[number] || !is_usable(group, shape_, options_) || !group.same_version ||
        group.version != version)
      continue;
    const std::size_t first = iteration.item(pipeline, work_->first(stage_));
    const auto known = [&](std::size_t k) {
      return std::isfinite(iteration.item_time[first + k]) &&
             std::isfinite(iteration.item_energy[first + k]);
    };
    bool all = true;
    for (std::size_t k = 0; k < items; ++k) all = all && known(k);
    if (!all) continue;
    ++groups;
    if (options_.as_is) samples_.clock.push_back(group.clock.value);
    ++samples_.counts[pipeline];
    for (std::size_t k = 0; k < items; ++k) {
      sum_time[k] += iteration.item_time[first + k];
      sum_energy[k] += iteration.item_energy[first + k] / static_cast<double>(shape_.tensor);
      sum_error[k] += square(iteration.item_error[first + k] / static_cast<double>(shape_.tensor));
      samples_.sum_time[pipeline * items + k] += iteration.item_time[first + k];
    }
  }
  if (groups == 0) return;
  for (std::size_t k = 0; k < items; ++k) {
    samples_.time[k].push_back(sum_time[k] / groups);
    samples_.energy[k].push_back(sum_energy[k] / groups);
    samples_.error[k].push_back(std::sqrt(sum_error[k]) / groups);
  }
  samples_.iteration_time.push_back(time.value);
}

bool StageProfiling::suffices() const {
  const std::size_t count = iterations();
  if (count == 0) return false;
  if (count >= static_cast<std::size_t>(options_.most_iterations_per_clock)) return true;
  if (count + 1 < static_cast<std::size_t>(options_.iterations_per_clock)) return false;
  for (std::size_t k = 0; k < samples_.time.size(); ++k) {
    const MeanWithError time = mean_with_error(samples_.time[k]);
    const MeanWithError energy = mean_with_error(samples_.energy[k], samples_.error[k]);
    if (time.error > options_.time_target * time.mean ||
        energy.error > options_.energy_target * std::abs(energy.mean)) {
      return false;
    }
  }
  return true;
}

/// Returns the supported clock nearest to the median of the reported ones.
Megahertz StageProfiling::reported_clock() const {
  const double median = quantile(samples_.clock, 0.5);
  return *std::ranges::min_element(
      supported_, {}, [median](Megahertz clock) { return std::abs(clock.value - median); });
}

MeasuredClock StageProfiling::conclude() const {
  const std::size_t items = samples_.time.size();
  MeasuredClock measured;
  measured.clock = options_.as_is ? reported_clock() : clocks_[position_];
  for (std::size_t k = 0; k < items; ++k) {
    double longest = 0;
    for (int pipeline = 0; pipeline < shape_.data; ++pipeline) {
      if (samples_.counts[pipeline] == 0) continue;
      longest =
          std::max(longest, samples_.sum_time[pipeline * items + k] / samples_.counts[pipeline]);
    }
    measured.time.push_back({longest});
    const MeanWithError energy = mean_with_error(samples_.energy[k], samples_.error[k]);
    measured.energy.push_back({std::max(0.0, energy.mean)});
  }
  measured.iteration_time = {
      quantile(samples_.iteration_time, 0.5)};  // a stall is no clock's doing
  return measured;
}

bool StageProfiling::begin_again_if_faster(const MeasuredClock& measured) {
  const auto computing = [&](const MeasuredClock& at) {
    Seconds sum{0};
    for (std::size_t k = 0; k < work().size(); ++k) sum += at.time[k] * work()[k].count;
    return sum;
  };
  const auto is_faster = [&](const MeasuredClock& above) {
    return computing(measured) < computing(above) * (1 - kFaster);
  };
  if (anew_ == kMostAnew || std::ranges::none_of(measured_, is_faster)) return false;
  ++anew_;
  begin_again();
  return true;
}

void StageProfiling::close(MeasuredClock measured, Watts waiting) {
  measured_.push_back(std::move(measured));
  for (std::size_t pipeline = 0; pipeline < counted_.size(); ++pipeline) {
    if (samples_.counts[pipeline] > 0 && counted_[pipeline] == Counted::kNot)
      counted_[pipeline] = Counted::kIs;
  }
  ++position_;
  ended_ = rises_enough(waiting) || position_ == clocks_.size();
  clear();
}

void StageProfiling::begin_again() {
  measured_.clear();
  position_ = 0;
  ended_ = false;
  clear();
}

void StageProfiling::skip() {
  ++position_;
  ended_ = position_ == clocks_.size();
  clear();
}

bool StageProfiling::leave_out(int pipeline) {
  const auto at = static_cast<std::size_t>(pipeline);
  if (samples_.counts[at] > 0) clear();
  if (counted_[at] != Counted::kIs) return false;
  counted_[at] = Counted::kWas;
  begin_again();
  return true;
}

bool StageProfiling::rises_enough(Watts waiting) const {
  const auto needed = static_cast<std::size_t>(options_.max_consecutive_increases);
  if (measured_.size() <= needed) return false;
  const auto effective = [&](const MeasuredClock& at) {
    Joules sum{0};
    for (std::size_t k = 0; k < work().size(); ++k)
      sum += (at.energy[k] - waiting * at.time[k]) * work()[k].count;
    return sum;
  };
  for (std::size_t i = measured_.size() - needed; i < measured_.size(); ++i)
    if (effective(measured_[i]) <= effective(measured_[i - 1])) return false;
  return true;
}

void StageProfiling::restore(std::vector<MeasuredClock> measured, bool ended) {
  measured_ = std::move(measured);
  ended_ = ended;
  const auto last =
      measured_.empty() ? clocks_.end() : std::ranges::find(clocks_, measured_.back().clock);
  if (last == clocks_.end()) return begin_again();
  position_ = static_cast<std::size_t>(last - clocks_.begin()) + 1;
  ended_ = ended_ || position_ == clocks_.size();
  clear();
}

}  // namespace harpe::training
