// What a profiler has measured so far, and how long the rest takes.

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/base/statistics.h"
#include "harpe/training/job/profiler.h"

namespace harpe {
namespace {

constexpr double kLeastWaiting = 0.02;  // share of the time from which waiting power is believed

}  // namespace

ProfilingProgress Profiler::progress(int lead) const {
  ProfilingProgress progress;
  std::size_t all = 0, measured = 0, left = 0;
  for (int stage = 0; stage < shape_.stages; ++stage) {
    const std::size_t clocks = clocks_[stage].size();
    const std::size_t at = ended_[stage] ? clocks : position_[stage];
    all += clocks;
    measured += at;
    left = std::max(left, clocks - at);
    progress.clocks = std::max(progress.clocks, static_cast<int>(clocks));
  }
  progress.clocks_left = static_cast<int>(left);
  progress.fraction = all == 0 ? 1 : static_cast<double>(measured) / static_cast<double>(all);
  const double full = account_.full_time;
  progress.slowdown = account_.base > 0 ? account_.extra / account_.base : 0;

  // Block by block as `add` begins them: each once all-max has earned it.
  const double block = usual_iterations() + lead + 1;
  double iterations = 0, extra = account_.extra, base = account_.base;
  for (std::size_t next = 0; next < left && full > 0; ++next) {
    const bool has_begun = next == 0 && !resting_;
    const double own = has_begun ? std::max(1.0, block - block_iterations_) : block;
    const double loss = own * std::max(0.0, slowest_time(next).value - full);
    double rest = 0;
    if (!has_begun && options_.slowdown_limit > 0)
      rest = std::max(0.0, ((extra + loss) / options_.slowdown_limit - base) / full - own);
    iterations += rest + own;
    base += (rest + own) * full;
    extra += loss;
  }
  if (full == 0) iterations = static_cast<double>(left) * block;
  progress.iterations_left = static_cast<int>(std::min(1e9, std::ceil(iterations)));
  progress.time_left = {std::max(0.0, iterations * full + extra - account_.extra)};
  return progress;
}

/// Of a clock, as those so far took.
double Profiler::usual_iterations() const {
  const double usual = closed_ == 0 ? 0 : static_cast<double>(closed_iterations_) / closed_;
  return std::max(usual, static_cast<double>(options_.iterations_per_clock));
}

/// An iteration of the clocks that are `ahead` of those that are measured now takes at most this:
/// computations slow down no more than clocks.
Seconds Profiler::slowest_time(std::size_t ahead) const {
  double slower = 1;
  for (int stage = 0; stage < shape_.stages; ++stage) {
    const std::size_t at = position_[stage] + ahead;
    if (ended_[stage] || at >= clocks_[stage].size()) continue;
    const bool measured = position_[stage] > 0 && last_block_time_ > Seconds{0};
    const Megahertz from = clocks_[stage][measured ? position_[stage] - 1 : 0];
    const Megahertz to = clocks_[stage][at];
    if (to > Megahertz{0}) slower = std::max(slower, static_cast<double>(from.value) / to.value);
  }
  return std::max(last_block_time_, Seconds{account_.full_time}) * slower;
}

std::vector<int> Profiler::without_energy() const {
  std::vector<int> stages;
  for (int stage = 0; stage < shape_.stages; ++stage)
    if (measuring(stage) && !resting_ && samples_[stage].iterations() == 0 &&
        block_iterations_ > 2 * options_.iterations_per_clock + options_.warm_up) {
      stages.push_back(stage);
    }
  return stages;
}

Profile Profiler::profile() const {
  std::vector<InstructionProfile> entries;
  bool chunks = false;
  for (int stage = 0; stage < shape_.stages; ++stage) {
    const std::vector<WorkItem>& work = work_->stage(stage);
    for (std::size_t k = 0; k < work.size(); ++k) {
      chunks = chunks || work[k].chunk > 0;
      InstructionProfile entry{
          .stage = stage, .chunk = work[k].chunk, .kind = work[k].kind, .points = {}};
      for (const MeasuredClock& at : measured_[stage])
        entry.points.push_back({.clock = at.clock, .time = at.time[k], .energy = at.energy[k]});
      std::ranges::sort(entry.points, {}, &OperatingPoint::clock);
      if (!entry.points.empty()) entries.push_back(std::move(entry));
    }
  }
  return Profile(std::move(entries), chunks);
}

std::vector<Watts> Profiler::blocking_power() const {
  const auto stages = static_cast<std::size_t>(shape_.stages);
  if (given_blocking_power_) return given_blocking_power_->each(shape_.stages);
  const double all = account_.base * shape_.data * shape_.tensor;
  std::vector<Watts> powers(stages, Watts{-1});
  std::vector<double> known;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const double time = account_.wait_time[stage];
    if (time <= kLeastWaiting * all || time <= 0) continue;
    powers[stage] = {std::max(0.0, account_.wait_energy[stage] / time)};
    known.push_back(powers[stage].value);
  }
  const Watts middle{known.empty() ? 0 : quantile(known, 0.5)};
  for (Watts& power : powers)
    if (power < Watts{0}) power = middle;
  return powers;
}

}  // namespace harpe
