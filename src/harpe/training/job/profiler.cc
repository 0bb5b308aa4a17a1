#include "harpe/training/job/profiler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/base/statistics.h"

namespace harpe {
namespace {

constexpr double kLeastError = 0.01;  // of an iteration's energy: waiting is known no better
constexpr double kFaster = 0.05;      // than at a higher clock: more than noise and throttling do
constexpr int kMostAnew = 2;

/// Both ends and evenly between.
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

/// Returns the factor by which computations slow down at most from one clock to another.
double slowing(Megahertz from, Megahertz to) {
  return to > Megahertz{0} ? static_cast<double>(from.value) / to.value : 1;
}

}  // namespace

Profiler::Profiler(JobShape shape, const ScheduleWork& work,
                   std::vector<std::vector<Megahertz>> clocks, const ProfilingOptions& options,
                   std::optional<PerStage<Watts>> blocking_power,
                   std::vector<std::vector<MeasuredClock>> known)
    : shape_(shape),
      work_(&work),
      clocks_(std::move(clocks)),
      supported_(options.as_is ? clocks_ : std::vector<std::vector<Megahertz>>()),
      options_(options),
      given_blocking_power_(std::move(blocking_power)),
      measured_(std::move(known)),
      position_(clocks_.size()),
      ended_(clocks_.size()),
      anew_(clocks_.size()),
      counted_(static_cast<std::size_t>(shape.groups())),
      samples_(clocks_.size()),
      throttled_(clocks_.size()) {
  measured_.resize(clocks_.size());
  account_.wait_time.resize(clocks_.size());
  account_.wait_energy.resize(clocks_.size());
  account_.wait_weight.resize(clocks_.size());
  for (std::size_t stage = 0; stage < clocks_.size(); ++stage) {
    ended_[stage] = !measured_[stage].empty();
    clocks_[stage] =
        options_.as_is ? std::vector{Megahertz{0}} : thinned(std::move(clocks_[stage]), options_);
    clear(static_cast<int>(stage));
  }
}

std::vector<Megahertz> Profiler::clocks() const {
  std::vector<Megahertz> clocks;
  for (int stage = 0; stage < shape_.stages; ++stage) {
    const bool slow = !resting_ && measuring(stage);
    clocks.push_back(clocks_[stage][slow ? position_[stage] : 0]);
  }
  return clocks;
}

void Profiler::begin(std::uint64_t version, std::int64_t iteration) {
  version_ = version;
  from_ = iteration;
  block_iterations_ = 0;
  before_ = std::exchange(current_, clocks());
}

void Profiler::clear(int stage) {
  throttled_[stage] = 0;
  const std::size_t items = work_->stage(stage).size();
  samples_[stage] = {.time = std::vector<std::vector<double>>(items),
                     .energy = std::vector<std::vector<double>>(items),
                     .error = std::vector<std::vector<double>>(items),
                     .sum_time = std::vector<double>(items * shape_.data),
                     .counts = std::vector<int>(shape_.data),
                     .iteration_time = {},
                     .clock = {}};
}

Seconds Profiler::all_max_time() const {
  return {account_.full_time};
}

bool Profiler::done() const {
  for (int stage = 0; stage < shape_.stages; ++stage)
    if (measuring(stage)) return false;
  return true;
}

/// What of an iteration's time clocks can be the cause of: computations slow down no more than they
/// do. The rest is none of profiling's doing, such as a checkpoint.
Seconds Profiler::explained(Seconds time) const {
  if (account_.full_time == 0) return time;
  double slower = 1;
  for (const std::vector<Megahertz>& clocks : {before_, current_}) {
    for (std::size_t stage = 0; stage < clocks.size(); ++stage)
      slower = std::max(slower, slowing(clocks_[stage][0], clocks[stage]));
  }
  return std::min(time, Seconds{account_.full_time * slower});
}

/// Slow blocks lose time, all-max earn it.
void Profiler::account(const FinishedIteration& iteration, Seconds time) {
  const bool in_block = iteration.iteration >= from_;
  bool full = in_block;
  for (int stage = 0; stage < shape_.stages && full; ++stage)
    full = current_[stage] == clocks_[stage][0];
  const bool settled = iteration.iteration >= from_ + (first_block_ ? options_.warm_up : 1);
  double& full_time = account_.full_time;
  if (full && settled) {
    full_time = full_times_.add(time.value);
  }
  if (full_time == 0) return;
  if (!full) account_.extra += explained(time).value - full_time;
  account_.base += full_time;
}

void Profiler::account_waiting(const FinishedIteration& iteration,
                               const std::vector<bool>& left_out, int stage) {
  const std::vector<WorkItem>& work = work_->stage(stage);
  for (int pipeline = 0; pipeline < shape_.data; ++pipeline) {
    const std::size_t number = shape_.group(pipeline, stage);
    const GroupIteration& group = iteration.groups[number];
    if (left_out[number] || !is_usable(group)) continue;
    double time = group.time.value;
    double energy = group.energy.value;
    double variance = square(group.energy_error.value) + square(kLeastError * energy);
    for (std::size_t k = 0; k < work.size(); ++k) {
      const std::size_t at = iteration.item(pipeline, work_->first(stage) + k);
      time -= double{iteration.item_time[at]} * work[k].count;
      energy -= double{iteration.item_energy[at]} * work[k].count;
      variance += square(double{iteration.item_error[at]} * work[k].count);
    }
    time *= shape_.tensor;
    if (!std::isfinite(time) || !std::isfinite(energy) || !(variance > 0)) continue;
    // Least squares of energy = power x time.
    double &total = account_.wait_time[stage], &weight = account_.wait_weight[stage];
    if (!(total > 0)) weight = 0;  // by noise: no power is known
    const double power = total > 0 ? account_.wait_energy[stage] / total : 0;
    total += time;
    weight += square(time) / variance;
    const double better =
        weight > 0 ? power + (energy - power * time) * time / variance / weight : power;
    account_.wait_energy[stage] = better * total;
  }
}

void Profiler::sample(const FinishedIteration& iteration, const std::vector<bool>& left_out,
                      int stage, Seconds time) {
  const std::size_t items = work_->stage(stage).size();
  Samples& samples = samples_[stage];
  std::vector<double> sum_time(items), sum_energy(items), sum_error(items);
  int groups = 0;
  for (int pipeline = 0; pipeline < shape_.data; ++pipeline) {
    const std::size_t number = shape_.group(pipeline, stage);
    const GroupIteration& group = iteration.groups[number];
    if (left_out[number] || !is_usable(group) || !group.same_version || group.version != version_)
      continue;
    const std::size_t first = iteration.item(pipeline, work_->first(stage));
    const auto known = [&](std::size_t k) {
      return std::isfinite(iteration.item_time[first + k]) &&
             std::isfinite(iteration.item_energy[first + k]);
    };
    bool all = true;
    for (std::size_t k = 0; k < items; ++k) all = all && known(k);
    if (!all) continue;
    ++groups;
    if (options_.as_is) samples.clock.push_back(group.clock.value);
    ++samples.counts[pipeline];
    for (std::size_t k = 0; k < items; ++k) {
      sum_time[k] += iteration.item_time[first + k];
      sum_energy[k] += iteration.item_energy[first + k] / static_cast<double>(shape_.tensor);
      sum_error[k] += square(iteration.item_error[first + k] / static_cast<double>(shape_.tensor));
      samples.sum_time[pipeline * items + k] += iteration.item_time[first + k];
    }
  }
  if (groups == 0) return;
  for (std::size_t k = 0; k < items; ++k) {
    samples.time[k].push_back(sum_time[k] / groups);
    samples.energy[k].push_back(sum_energy[k] / groups);
    samples.error[k].push_back(std::sqrt(sum_error[k]) / groups);
  }
  samples.iteration_time.push_back(time.value);
}

/// True if all shards have reported, at a known clock.
bool Profiler::is_usable(const GroupIteration& group) const {
  const bool is_at_clock = options_.as_is ? group.clock > Megahertz{0} : !group.throttled;
  return group.ranks >= shape_.tensor && is_at_clock;
}

/// Returns the supported clock nearest to the median of the reported ones.
Megahertz Profiler::reported_clock(int stage) const {
  const double median = quantile(samples_[stage].clock, 0.5);
  return *std::ranges::min_element(
      supported_[stage], {}, [median](Megahertz clock) { return std::abs(clock.value - median); });
}

bool Profiler::throttled(const FinishedIteration& iteration, int stage) const {
  if (options_.as_is) return false;
  for (int pipeline = 0; pipeline < shape_.data; ++pipeline)
    if (iteration.groups[shape_.group(pipeline, stage)].throttled) return true;
  return false;
}

bool Profiler::suffices(int stage) const {
  const Samples& samples = samples_[stage];
  const std::size_t count = samples.iterations();
  if (count >= static_cast<std::size_t>(options_.most_iterations_per_clock)) return true;
  if (count + 1 < static_cast<std::size_t>(options_.iterations_per_clock)) return false;
  for (std::size_t k = 0; k < samples.time.size(); ++k) {
    const MeanWithError time = mean_with_error(samples.time[k]);
    const MeanWithError energy = mean_with_error(samples.energy[k], samples.error[k]);
    if (time.error > options_.time_target * time.mean ||
        energy.error > options_.energy_target * std::abs(energy.mean)) {
      return false;
    }
  }
  return true;
}

/// What the samples say of the stage's clock.
MeasuredClock Profiler::conclude(int stage) const {
  const Samples& samples = samples_[stage];
  const std::size_t items = samples.time.size();
  MeasuredClock measured;
  measured.clock = options_.as_is ? reported_clock(stage) : clocks_[stage][position_[stage]];
  for (std::size_t k = 0; k < items; ++k) {
    double longest = 0;
    for (int pipeline = 0; pipeline < shape_.data; ++pipeline) {
      if (samples.counts[pipeline] == 0) continue;
      longest =
          std::max(longest, samples.sum_time[pipeline * items + k] / samples.counts[pipeline]);
    }
    measured.time.push_back({longest});
    const MeanWithError energy = mean_with_error(samples.energy[k], samples.error[k]);
    measured.energy.push_back({std::max(0.0, energy.mean)});
  }
  measured.iteration_time = {quantile(samples.iteration_time, 0.5)};  // a stall is no clock's doing
  return measured;
}

bool Profiler::is_faster_than_above(int stage, const MeasuredClock& measured) const {
  const std::vector<WorkItem>& work = work_->stage(stage);
  const auto computing = [&](const MeasuredClock& at) {
    Seconds sum{0};
    for (std::size_t k = 0; k < work.size(); ++k) sum += at.time[k] * work[k].count;
    return sum;
  };
  return std::ranges::any_of(measured_[stage], [&](const MeasuredClock& above) {
    return computing(measured) < computing(above) * (1 - kFaster);
  });
}

/// Goes on to the next clock.
void Profiler::close(int stage, MeasuredClock measured) {
  measured_[stage].push_back(std::move(measured));
  const Samples& samples = samples_[stage];
  ++closed_;
  closed_iterations_ += static_cast<int>(samples.iterations());
  for (int pipeline = 0; pipeline < shape_.data; ++pipeline) {
    Counted& counted = counted_[shape_.group(pipeline, stage)];
    if (samples.counts[pipeline] > 0 && counted == Counted::kNot) counted = Counted::kIs;
  }
  ++position_[stage];
  ended_[stage] = rises_enough(stage) || position_[stage] == clocks_[stage].size();
  clear(stage);
}

void Profiler::begin_again(int stage) {
  measured_[stage].clear();
  position_[stage] = 0;
  ended_[stage] = false;
  clear(stage);
}

/// A clock that the GPUs are held back from is none that they have.
void Profiler::skip(int stage) {
  ++position_[stage];
  ended_[stage] = position_[stage] == clocks_[stage].size();
  clear(stage);
}

bool Profiler::rises_enough(int stage) const {
  const std::vector<MeasuredClock>& measured = measured_[stage];
  const auto needed = static_cast<std::size_t>(options_.max_consecutive_increases);
  if (measured.size() <= needed) return false;
  const Watts waiting = blocking_power()[stage];
  const std::vector<WorkItem>& work = work_->stage(stage);
  const auto effective = [&](const MeasuredClock& at) {
    Joules sum{0};
    for (std::size_t k = 0; k < work.size(); ++k)
      sum += (at.energy[k] - waiting * at.time[k]) * work[k].count;
    return sum;
  };
  for (std::size_t i = measured.size() - needed; i < measured.size(); ++i)
    if (effective(measured[i]) <= effective(measured[i - 1])) return false;
  return true;
}

/// Iterations of the block to come take at most this: computations slow down no more than clocks.
Seconds Profiler::predicted_time() const {
  if (last_block_time_ <= Seconds{0}) return {account_.full_time};
  double slower = 1;
  for (int stage = 0; stage < shape_.stages; ++stage) {
    const std::size_t at = position_[stage];
    if (!measuring(stage) || at == 0) continue;
    slower = std::max(slower, slowing(clocks_[stage][at - 1], clocks_[stage][at]));
  }
  return last_block_time_ * slower;
}

bool Profiler::affordable(Seconds time, double iterations) const {
  const double full = account_.full_time;
  if (full == 0) return true;
  const double extra = account_.extra + iterations * std::max(0.0, time.value - full);
  return extra <= options_.slowdown_limit * (account_.base + iterations * full);
}

Profiler::Next Profiler::add(const FinishedIteration& iteration, const std::vector<bool>& left_out,
                             int lead) {
  Seconds time{0};
  for (const GroupIteration& group : iteration.groups) time = std::max(time, group.time);
  if (time > Seconds{0} && !current_.empty()) account(iteration, time);
  if (iteration.iteration < from_ || done()) return Next::kStay;

  if (start_over(left_out)) return Next::kChange;
  ++block_iterations_;
  const std::int64_t dropped = first_block_ ? options_.warm_up : 1;
  for (int stage = 0; stage < shape_.stages; ++stage) {
    const bool changed = before_.empty() || before_[stage] != current_[stage] || first_block_;
    if (changed && iteration.iteration < from_ + dropped) continue;
    account_waiting(iteration, left_out, stage);
    if (!measuring(stage) || resting_) continue;
    sample(iteration, left_out, stage, time);
    throttled_[stage] += throttled(iteration, stage);
  }

  // A block, the iterations until its end is in force, and one for a change of mind.
  const double block = options_.iterations_per_clock + lead + 1;
  if (resting_) {
    if (!affordable(predicted_time(), block)) return Next::kStay;
    resting_ = false;
    return Next::kChange;
  }
  if (block_iterations_ >= options_.iterations_per_clock + (first_block_ ? options_.warm_up : 0)) {
    const Next next = close_finished();
    if (next == Next::kChange || next == Next::kAnew)
      resting_ = !affordable(predicted_time(), block);
    if (next != Next::kStay) return next;
  }
  const Seconds by_clocks = explained(time);
  const bool slow = by_clocks.value > account_.full_time;
  if (!slow || affordable(by_clocks, lead + 1)) return Next::kStay;
  resting_ = true;
  return Next::kChange;
}

/// A group that is left out from now on is in what was measured so far, at some clocks and not at
/// others: its stage begins again, once for each group. \returns whether any did
bool Profiler::start_over(const std::vector<bool>& left_out) {
  bool any = false;
  for (std::size_t group = 0; group < left_out.size(); ++group) {
    const std::size_t stage = group % static_cast<std::size_t>(shape_.stages);
    if (!left_out[group]) continue;
    if (samples_[stage].counts[group / static_cast<std::size_t>(shape_.stages)] > 0) {
      clear(static_cast<int>(stage));
    }
    if (counted_[group] != Counted::kIs) continue;
    counted_[group] = Counted::kWas;
    begin_again(static_cast<int>(stage));
    any = true;
  }
  return any;
}

/// Closes the clock of every stage that knows enough of it.
Profiler::Next Profiler::close_finished() {
  bool closed = false, anew = false;
  Seconds block_time{0};
  for (int stage = 0; stage < shape_.stages; ++stage) {
    if (!measuring(stage)) continue;
    if (samples_[stage].iterations() > 0 && suffices(stage)) {
      MeasuredClock measured = conclude(stage);
      block_time = std::max(block_time, measured.iteration_time);
      closed = true;
      if (anew_[stage] < kMostAnew && is_faster_than_above(stage, measured)) {
        ++anew_[stage];
        begin_again(stage);
        anew = true;
      } else {
        close(stage, std::move(measured));
      }
    } else if (samples_[stage].iterations() == 0 &&
               throttled_[stage] >= options_.most_iterations_per_clock) {
      skip(stage);
      closed = true;
    }
  }
  if (!closed) return Next::kStay;
  first_block_ = false;
  if (block_time > Seconds{0}) last_block_time_ = block_time;
  if (done()) return Next::kDone;
  return anew ? Next::kAnew : Next::kChange;
}

void Profiler::restore(Kept kept) {
  account_ = std::move(kept.account);
  measured_ = std::move(kept.measured);
  ended_ = std::move(kept.ended);
  for (int stage = 0; stage < shape_.stages; ++stage) {
    const std::vector<Megahertz>& clocks = clocks_[stage];
    std::vector<MeasuredClock>& measured = measured_[stage];
    const auto last =
        measured.empty() ? clocks.end() : std::ranges::find(clocks, measured.back().clock);
    if (last == clocks.end()) {
      measured.clear();
      position_[stage] = 0;
      ended_[stage] = false;
    } else {
      position_[stage] = static_cast<std::size_t>(last - clocks.begin()) + 1;
      ended_[stage] = ended_[stage] || position_[stage] == clocks.size();
      last_block_time_ = std::max(last_block_time_, measured.back().iteration_time);
    }
    clear(stage);
  }
  resting_ = account_.full_time > 0;
  if (resting_) full_times_.add(account_.full_time);
}

}  // namespace harpe
