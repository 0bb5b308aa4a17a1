#include "harpe/training/job/profiler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/base/statistics.h"

namespace harpe::training {
namespace {

constexpr double kOtherTime = 0.05;  // relative; noise and throttling explain less
constexpr int kMostAnew = 2;
/// Iterations at the highest clock whose median is compared with the measured time: stalls in three
/// of them do not matter.
constexpr std::size_t kCompared = 8;

/// Returns at most `most_clocks` clocks down to the lowest wanted one: both ends, and clocks evenly
/// spaced between them.
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

constexpr double kLeastWaiting = 0.02;  // share of the time needed to measure waiting power
constexpr double kLeastError = 0.01;  // of an iteration's energy: the least error of waiting energy

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
      counted_(static_cast<std::size_t>(shape.data)),
      at_highest_(static_cast<std::size_t>(shape.data)) {
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

/// Returns true if the pipeline's stage ran by the assignments `version` and reported all times and
/// energies.
bool StageProfiling::is_measurable(const FinishedIteration& iteration, int pipeline,
                                   const std::vector<bool>& left_out, std::uint64_t version) const {
  const std::size_t number = shape_.group(pipeline, stage_);
  const GroupIteration& group = iteration.groups[number];
  if (left_out[number] || !is_usable(group, shape_, options_) || !group.same_version ||
      group.version != version)
    return false;
  const std::size_t first = iteration.item(pipeline, work_->first(stage_));
  for (std::size_t k = first; k < first + work().size(); ++k)
    if (!std::isfinite(iteration.item_time[k]) || !std::isfinite(iteration.item_energy[k]))
      return false;
  return true;
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
    if (!is_measurable(iteration, pipeline, left_out, version)) continue;
    const GroupIteration& group = iteration.groups[shape_.group(pipeline, stage_)];
    const std::size_t first = iteration.item(pipeline, work_->first(stage_));
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
  measured.iteration_time = {quantile(samples_.iteration_time, 0.5)};  // clocks do not cause stalls
  return measured;
}

/// Returns the time of the stage's computations in one iteration.
Seconds StageProfiling::computing(const MeasuredClock& at) const {
  Seconds sum{0};
  for (std::size_t k = 0; k < work().size(); ++k) sum += at.time[k] * work()[k].count;
  return sum;
}

bool StageProfiling::begin_again_if_faster(const MeasuredClock& measured) {
  const auto is_faster = [&](const MeasuredClock& above) {
    return computing(measured) < computing(above) * (1 - kOtherTime);
  };
  if (anew_ == kMostAnew || std::ranges::none_of(measured_, is_faster)) return false;
  ++anew_;
  begin_again();
  return true;
}

bool StageProfiling::begin_again_if_changed(const FinishedIteration& iteration,
                                            const std::vector<bool>& left_out,
                                            std::uint64_t version) {
  if (anew_ == kMostAnew || position_ == 0 || measured_.empty()) return false;
  Seconds longest{0};
  bool enough = true;
  for (int pipeline = 0; pipeline < shape_.data; ++pipeline) {
    std::vector<double>& times = at_highest_[pipeline];
    if (is_measurable(iteration, pipeline, left_out, version)) {
      const std::size_t first = iteration.item(pipeline, work_->first(stage_));
      double sum = 0;
      for (std::size_t k = 0; k < work().size(); ++k)
        sum += double{iteration.item_time[first + k]} * work()[k].count;
      times.push_back(sum);
    }
    if (left_out[shape_.group(pipeline, stage_)]) continue;
    enough = enough && times.size() >= kCompared;
    if (enough) longest = std::max(longest, Seconds{quantile(times, 0.5)});
  }
  if (!enough || longest <= Seconds{0}) return false;
  for (std::vector<double>& times : at_highest_) times.clear();
  if (std::abs(longest / computing(measured_.front()) - 1) < kOtherTime) return false;
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
  at_highest_.assign(static_cast<std::size_t>(shape_.data), {});
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

Profiler::Profiler(JobShape shape, const plan::ScheduleWork& work,
                   std::vector<std::vector<Megahertz>> clocks, const ProfilingOptions& options,
                   std::optional<PerStage<Watts>> blocking_power,
                   std::vector<std::vector<MeasuredClock>> known)
    : shape_(shape),
      work_(&work),
      options_(options),
      given_blocking_power_(std::move(blocking_power)) {
  known.resize(clocks.size());
  for (std::size_t stage = 0; stage < clocks.size(); ++stage) {
    stages_.emplace_back(shape, work, static_cast<int>(stage), std::move(clocks[stage]), options,
                         std::move(known[stage]));
  }
  account_.wait_time.resize(clocks.size());
  account_.wait_energy.resize(clocks.size());
  account_.wait_weight.resize(clocks.size());
}

std::vector<Megahertz> Profiler::clocks() const {
  std::vector<Megahertz> clocks;
  for (const StageProfiling& stage : stages_)
    clocks.push_back(resting_ ? stage.highest_clock() : stage.clock());
  return clocks;
}

void Profiler::begin(std::uint64_t version, std::int64_t iteration) {
  version_ = version;
  from_ = iteration;
  block_iterations_ = 0;
  before_ = std::exchange(current_, clocks());
}

/// Returns the part of an iteration's time that slow clocks can explain: computations slow down at
/// most as much as clocks. The rest has other causes, such as a checkpoint.
Seconds Profiler::explained(Seconds time) const {
  if (account_.full_time == 0) return time;
  double slower = 1;
  for (const std::vector<Megahertz>& clocks : {before_, current_}) {
    for (std::size_t stage = 0; stage < clocks.size(); ++stage)
      slower = std::max(slower, most_slowing(stages_[stage].highest_clock(), clocks[stage]));
  }
  return std::min(time, Seconds{account_.full_time * slower});
}

/// Adds an iteration to the account: slow blocks lose time, blocks at all-max earn it.
void Profiler::account(const FinishedIteration& iteration, Seconds time) {
  const bool in_block = iteration.iteration >= from_;
  bool full = in_block;
  for (int stage = 0; stage < shape_.stages && full; ++stage)
    full = current_[stage] == stages_[stage].highest_clock();
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
  const std::vector<plan::WorkItem>& work = work_->stage(stage);
  for (int pipeline = 0; pipeline < shape_.data; ++pipeline) {
    const std::size_t number = shape_.group(pipeline, stage);
    const GroupIteration& group = iteration.groups[number];
    if (left_out[number] || !is_usable(group, shape_, options_)) continue;
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
    if (!(total > 0)) weight = 0;  // negative because of noise: no power is known
    const double power = total > 0 ? account_.wait_energy[stage] / total : 0;
    total += time;
    weight += square(time) / variance;
    const double better =
        weight > 0 ? power + (energy - power * time) * time / variance / weight : power;
    account_.wait_energy[stage] = better * total;
  }
}

/// Returns the longest time of iterations of the next block: computations slow down at most as much
/// as clocks.
Seconds Profiler::predicted_time() const {
  if (last_block_time_ <= Seconds{0}) return {account_.full_time};
  double slower = 1;
  for (const StageProfiling& stage : stages_) slower = std::max(slower, stage.slowing(0, true));
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
    if (stages_[stage].is_measuring() && !resting_)
      stages_[stage].add(iteration, left_out, version_, time);
  }

  // The iterations of a block, those until its end is in force, and one for a change of decision.
  const double block = options_.iterations_per_clock + lead + 1;
  if (resting_) {
    const bool anew = compare_at_all_max(iteration, left_out);
    resting_ = !affordable(predicted_time(), block);
    if (anew) return Next::kAnew;
    return resting_ ? Next::kStay : Next::kChange;
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

/// Restarts the stages whose measurements include a group that is left out from now on. Returns
/// true if there are any.
bool Profiler::start_over(const std::vector<bool>& left_out) {
  bool any = false;
  for (std::size_t group = 0; group < left_out.size(); ++group) {
    if (!left_out[group]) continue;
    const auto pipeline = static_cast<int>(group / stages_.size());
    any = stages_[group % stages_.size()].leave_out(pipeline) || any;
  }
  return any;
}

/// Compares the stages' times at all-max with the measured ones. Returns true if a stage begins
/// again.
bool Profiler::compare_at_all_max(const FinishedIteration& iteration,
                                  const std::vector<bool>& left_out) {
  if (iteration.iteration < from_ + (first_block_ ? options_.warm_up : 1)) return false;
  bool any = false;
  for (StageProfiling& stage : stages_)
    any = stage.begin_again_if_changed(iteration, left_out, version_) || any;
  return any;
}

/// Closes the clock of every stage that has enough samples of it.
Profiler::Next Profiler::close_finished() {
  bool closed = false, anew = false;
  Seconds block_time{0};
  const std::vector<Watts> waiting = blocking_power();
  for (std::size_t k = 0; k < stages_.size(); ++k) {
    StageProfiling& stage = stages_[k];
    if (!stage.is_measuring()) continue;
    if (stage.suffices()) {
      MeasuredClock measured = stage.conclude();
      block_time = std::max(block_time, measured.iteration_time);
      closed = true;
      if (stage.begin_again_if_faster(measured)) {
        anew = true;
        continue;
      }
      ++closed_;
      closed_iterations_ += static_cast<int>(stage.iterations());
      stage.close(std::move(measured), waiting[k]);
    } else if (stage.is_held_back()) {
      stage.skip();
      closed = true;
    }
  }
  if (!closed) return Next::kStay;
  first_block_ = false;
  if (block_time > Seconds{0}) last_block_time_ = block_time;
  if (done()) return Next::kDone;
  return anew ? Next::kAnew : Next::kChange;
}

std::vector<std::vector<MeasuredClock>> Profiler::measured() const {
  std::vector<std::vector<MeasuredClock>> measured;
  for (const StageProfiling& stage : stages_) measured.push_back(stage.measured());
  return measured;
}

Profiler::Kept Profiler::kept() const {
  Kept kept{account_, measured(), {}};
  for (const StageProfiling& stage : stages_) kept.ended.push_back(stage.has_ended());
  return kept;
}

void Profiler::restore(Kept kept) {
  account_ = std::move(kept.account);
  for (std::size_t k = 0; k < stages_.size(); ++k) {
    StageProfiling& stage = stages_[k];
    stage.restore(std::move(kept.measured[k]), kept.ended[k]);
    if (stage.measured().empty()) continue;
    last_block_time_ = std::max(last_block_time_, stage.measured().back().iteration_time);
  }
  resting_ = account_.full_time > 0;
  if (resting_) full_times_.add(account_.full_time);
}

ProfilingProgress Profiler::progress(int lead) const {
  ProfilingProgress progress;
  std::size_t all = 0, measured = 0, left = 0;
  for (const StageProfiling& stage : stages_) {
    all += stage.clocks();
    measured += stage.clocks() - stage.clocks_left();
    left = std::max(left, stage.clocks_left());
    progress.clocks = std::max(progress.clocks, static_cast<int>(stage.clocks()));
  }
  progress.clocks_left = static_cast<int>(left);
  progress.fraction = all == 0 ? 1 : static_cast<double>(measured) / static_cast<double>(all);
  const double full = account_.full_time;
  progress.slowdown = account_.base > 0 ? account_.extra / account_.base : 0;

  // Simulates the blocks as `add` begins them: each after all-max has earned its extra time.
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

/// Returns the iterations that a clock needs, judged by the clocks so far.
double Profiler::usual_iterations() const {
  const double usual = closed_ == 0 ? 0 : static_cast<double>(closed_iterations_) / closed_;
  return std::max(usual, static_cast<double>(options_.iterations_per_clock));
}

/// Returns the longest time of an iteration at the clocks that are `ahead` of those measured now.
Seconds Profiler::slowest_time(std::size_t ahead) const {
  double slower = 1;
  for (const StageProfiling& stage : stages_)
    slower = std::max(slower, stage.slowing(ahead, last_block_time_ > Seconds{0}));
  return std::max(last_block_time_, Seconds{account_.full_time}) * slower;
}

std::vector<int> Profiler::without_energy() const {
  std::vector<int> stages;
  for (int stage = 0; stage < shape_.stages; ++stage)
    if (stages_[stage].is_measuring() && !resting_ && stages_[stage].iterations() == 0 &&
        block_iterations_ > 2 * options_.iterations_per_clock + options_.warm_up) {
      stages.push_back(stage);
    }
  return stages;
}

Profile Profiler::profile() const {
  std::vector<InstructionProfile> entries;
  bool chunks = false;
  for (int stage = 0; stage < shape_.stages; ++stage) {
    const std::vector<plan::WorkItem>& work = work_->stage(stage);
    for (std::size_t k = 0; k < work.size(); ++k) {
      chunks = chunks || work[k].chunk > 0;
      InstructionProfile entry{
          .stage = stage, .chunk = work[k].chunk, .kind = work[k].kind, .points = {}};
      for (const MeasuredClock& at : stages_[stage].measured())
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

}  // namespace harpe::training
