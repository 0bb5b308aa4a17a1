#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "harpe/base/statistics.h"
#include "harpe/base/text.h"
#include "harpe/job/job_state.h"

namespace harpe {
namespace {

constexpr double kForgetting = 0.2;            // of running means over iterations
constexpr double kFactorChange = 0.02;         // of a detected straggler that is worth a new plan
constexpr double kLeastFactor = 1.005;         // below, slack takes it up
constexpr Seconds kNoEnergyPatience{30};       // short instructions take a while to tell apart
constexpr int kOverheadIterations = 5;         // by which a time outside the pipeline is known
constexpr std::int64_t kCalmIterations = 100;  // between measuring again what has moved
constexpr int kMostRollbacks = 3;
constexpr int kDoubtIterations = 10;    // in a row, until the user hears of it
constexpr double kLeastDoubted = 1.05;  // factor; less is within noise
constexpr double kDoubted = 0.5;        // share of a told slowdown that is to be seen, at least
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

void blend(double& mean, double value) {
  mean = mean == 0 ? value : mean + kForgetting * (value - mean);
}

Seconds longest(const FinishedIteration& iteration) {
  Seconds time{0};
  for (const GroupIteration& group : iteration.groups) time = std::max(time, group.time);
  return time;
}

/// Whether every rank has reported, all by the same orders and none held back.
bool whole(const FinishedIteration& iteration, const JobShape& shape) {
  return std::ranges::all_of(iteration.groups, [&](const GroupIteration& group) {
    return group.ranks == shape.tensor && group.same_version && !group.throttled &&
           group.version == iteration.groups.front().version;
  });
}

std::string rounded(double factor) {
  return shortest(std::round(factor * 100) / 100);
}

/// By how much a ratio is above 1.
std::string percent(double ratio) {
  return shortest(std::round((ratio - 1) * 1000) / 10) + " %";
}

}  // namespace

void Job::State::finish(const FinishedIteration& iteration, Seconds now) {
  const Seconds time = longest(iteration);
  if (time <= Seconds{0}) return;
  blend(iteration_time.value, time.value);
  note_full_speed(iteration, time);
  relative_times(iteration);
  detector.add(iteration.iteration, relative);
  watch_stragglers(now);
  if (phase == JobPhase::kProfiling) profile_iteration(iteration, now);
  if (phase == JobPhase::kRunning || phase == JobPhase::kStraggling)
    plan_iteration(iteration, time, now);
}

void Job::State::note_full_speed(const FinishedIteration& iteration, Seconds time) {
  const Deployment* deployment = with_version(iteration.groups.front().version);
  if (deployment == nullptr || deployment->purpose == StageOrders::Purpose::kPlan ||
      iteration.iteration <= deployment->from || !whole(iteration, spec.shape) ||
      deployment->stage_clocks != highest_clocks() || !told.empty() || !detected.empty()) {
    return;
  }
  full_time = {full_times.add(time.value)};
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    double sum = 0;
    for (int pipeline_number = 0; pipeline_number < spec.shape.data; ++pipeline_number)
      sum += iteration.groups[spec.shape.group(pipeline_number, stage)].energy.value;
    if (std::isfinite(sum)) blend(full_energy[stage], sum / spec.shape.data);
  }
}

double Job::State::compute_time(const FinishedIteration& iteration, int pipeline_number,
                                int stage) const {
  const std::vector<WorkItem>& items = work.stage(stage);
  double time = 0;
  for (std::size_t k = 0; k < items.size(); ++k) {
    const std::size_t at = iteration.item(pipeline_number, work.first(stage) + k);
    time += double{iteration.item_time[at]} * items[k].count;
  }
  return time;
}

/// Compute times over what the plan of each pipeline predicts; where there is no plan, over the
/// middle of the stage.
void Job::State::relative_times(const FinishedIteration& iteration) {
  std::vector<double> times;
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    times.clear();
    for (int p = 0; p < spec.shape.data; ++p) {
      const double time = compute_time(iteration, p, stage);
      if (std::isfinite(time)) times.push_back(time);
    }
    const double middle = times.empty() ? kUnknown : quantile(times, 0.5);
    for (int p = 0; p < spec.shape.data; ++p) {
      const std::size_t number = spec.shape.group(p, stage);
      const Deployment* by = with_version(iteration.groups[number].version);
      double predicted = middle;
      if (by != nullptr && by->purpose == StageOrders::Purpose::kPlan)
        predicted = by->plans->plans()[by->choice.plan_of[p]].compute_time[stage].value;
      relative[number] = static_cast<float>(compute_time(iteration, p, stage) / predicted);
    }
  }
}

void Job::State::profile_iteration(const FinishedIteration& iteration, Seconds now) {
  std::vector<bool> left_out(static_cast<std::size_t>(spec.shape.groups()));
  for (const Straggler& straggler : all_stragglers())
    for (int stage = 0; stage < spec.shape.stages; ++stage)
      left_out[spec.shape.group(straggler.pipeline, stage)] = true;
  const Profiler::Next next = profiler->add(iteration, left_out, lead());
  if (next == Profiler::Next::kDone) return end_profiling(now);
  if (next == Profiler::Next::kChange) deploy_profile();
  if (told_no_energy) return;
  const std::vector<int> stages = profiler->without_energy();
  if (stages.empty()) {
    no_energy_since.reset();
  } else if (!no_energy_since) {
    no_energy_since = now;
  } else if (now - *no_energy_since > kNoEnergyPatience) {
    told_no_energy = true;
    tell(Notice::Level::kWarning, now,
         "nothing can be planned yet: no rank of stage " + std::to_string(stages.front()) +
             (stages.size() > 1 ? " and others" : "") +
             " reports the time and energy of all its instructions");
  }
}

Seconds Job::State::predicted_time(const Deployment& deployment) const {
  return deployment.choice.wait_until + overhead.value_or(Seconds{0});
}

/// Joules of one stage of one pipeline, all shards, in an iteration of `time`.
double Job::State::predicted_energy(const TablePlan& plan, int stage, Seconds time) const {
  const Joules waiting = blocking_power[stage] * (time - plan.compute_time[stage]);
  return (plan.compute_energy[stage] + waiting).value * spec.shape.tensor;
}

void Job::State::plan_iteration(const FinishedIteration& iteration, Seconds time, Seconds now) {
  if (!whole(iteration, spec.shape)) return;
  const Deployment* by = with_version(iteration.groups.front().version);
  if (by == nullptr || by->purpose != StageOrders::Purpose::kPlan ||
      by->version != deployments.back().version || iteration.iteration <= by->from) {
    return;
  }
  account_savings(iteration, time);
  if (!overhead) {
    if (++plan_iterations < kOverheadIterations) return;
    overhead = std::max(Seconds{0}, iteration_time - by->choice.wait_until);
    return;
  }
  watch_drift(iteration, *by, time, now);
}

void Job::State::watch_drift(const FinishedIteration& iteration, const Deployment& deployment,
                             Seconds time, Seconds now) {
  std::vector<double> energy;
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    double measured_sum = 0, predicted = 0;
    for (int p = 0; p < spec.shape.data; ++p) {
      const TablePlan& plan = deployment.plans->plans()[deployment.choice.plan_of[p]];
      measured_sum += iteration.groups[spec.shape.group(p, stage)].energy.value;
      predicted += predicted_energy(plan, stage, time);
    }
    // What the model leaves out of an iteration, it leaves out at full clocks too.
    if (full_energy[stage] > 0 && full_time > Seconds{0}) {
      predicted += (full_energy[stage] - predicted_energy(plans->all_max(), stage, full_time)) *
                   spec.shape.data;
    }
    energy.push_back(measured_sum / predicted);
  }
  drift.add(time / predicted_time(deployment), energy);
  doubt_told(now);
  if (!told.empty() || !detected.empty()) return;

  std::vector<int> moved = drift.moved();
  for (const SlowStage& slow : detector.stages())
    if (std::ranges::find(moved, slow.stage) == moved.end()) moved.push_back(slow.stage);
  std::ranges::sort(moved);
  if (const std::optional<double> slower = drift.slower()) {
    rolled_back = true;
    if (++rollbacks > kMostRollbacks) {
      tell(Notice::Level::kWarning, now,
           "iterations are " + percent(*slower) +
               " longer than planned, again and again: training stays at full clocks until the "
               "wish is set anew");
      drift.reset();
      return deploy_full_speed();
    }
    tell(Notice::Level::kWarning, now,
         "iterations are " + percent(*slower) +
             " longer than planned: back to full clocks, to measure again");
    return start_profiling(moved, now, "the plan was slower than promised");
  }
  const std::int64_t calm = kCalmIterations << std::min(rollbacks, kMostRollbacks);
  if (moved.empty() || iteration.iteration - last_profiling < calm) return;
  ++rollbacks;
  start_profiling(moved, now, "time or energy have moved");
}

/// What is told is believed: its cause may lie outside of computations, and healthy pipelines hide
/// it in the time of iterations, because they wait as told. But a person may err.
void Job::State::doubt_told(Seconds now) {
  std::erase_if(doubts, [&](const Doubt& doubt) {
    return std::ranges::find(told, doubt.told) == told.end();
  });
  for (const Straggler& one : told) {
    auto doubt = std::ranges::find(doubts, one, &Doubt::told);
    if (doubt == doubts.end()) doubt = doubts.insert(doubts.end(), {.told = one});
    if (doubt->said || one.factor < kLeastDoubted) continue;
    // Computations make no pipeline slower than they make its slowest stage.
    double slowest = 0;
    bool known = true;
    for (int stage = 0; stage < spec.shape.stages; ++stage) {
      const double factor = relative[spec.shape.group(one.pipeline, stage)];
      known = known && std::isfinite(factor);
      slowest = std::max(slowest, factor);
    }
    const bool against = known && slowest < 1 + kDoubted * (one.factor - 1);
    doubt->iterations = against ? doubt->iterations + 1 : 0;
    if (doubt->iterations < kDoubtIterations) continue;
    doubt->said = true;
    tell(Notice::Level::kWarning, now,
         "pipeline " + std::to_string(one.pipeline) + " is told to be " + shortest(one.factor) +
             " times slower, but its computations take " + rounded(slowest) +
             " times what is planned: unless something else delays it, all wait for nobody");
  }
  if (told.empty() || !detected.empty() || told == told_too_little) return;
  if (const std::optional<double> slower = drift.slower()) {
    told_too_little = told;
    tell(
        Notice::Level::kWarning, now,
        "iterations are " + percent(*slower) +
            " longer than the stragglers that were told explain: a factor is too low, or something "
            "else is slow");
  }
}

void Job::State::watch_stragglers(Seconds now) {
  std::vector<Straggler> found;
  for (const SlowWorker& worker : detector.workers()) {
    if (std::ranges::find(told, worker.pipeline, &Straggler::pipeline) != told.end()) continue;
    const auto known = std::ranges::find_if(slow_workers, [&](const JudgedWorker& judged) {
      return judged.worker.pipeline == worker.pipeline && judged.worker.stage == worker.stage &&
             std::abs(judged.worker.factor / worker.factor - 1) <= kFactorChange &&
             judged.plans == plans;
    });
    double factor = 1;
    if (known != slow_workers.end()) {
      factor = known->factor;
    } else {
      std::erase_if(slow_workers, [&](const JudgedWorker& judged) {
        return judged.worker.pipeline == worker.pipeline && judged.worker.stage == worker.stage;
      });
      factor = pipeline_factor(worker.stage, worker.factor);
      slow_workers.push_back({.worker = worker, .factor = factor, .plans = plans});
    }
    if (factor < kLeastFactor) continue;
    const auto same = std::ranges::find(found, worker.pipeline, &Straggler::pipeline);
    if (same == found.end()) {
      found.push_back(
          {.pipeline = worker.pipeline, .factor = factor, .until = {}, .detected = true});
    } else {
      same->factor = std::max(same->factor, factor);
    }
  }
  if (detector.workers().empty()) slow_workers.clear();
  const auto by_pipeline = [](const Straggler& s) { return s.pipeline; };
  std::ranges::sort(found, {}, by_pipeline);
  if (found == detected) return;
  std::string why = "a straggler has healed";
  if (!found.empty()) {
    const Straggler worst = *std::ranges::max_element(found, {}, &Straggler::factor);
    why = "pipeline " + std::to_string(worst.pipeline) + " is " + rounded(worst.factor) +
          " times slower";
    for (const SlowWorker& worker : detector.workers())
      if (worker.pipeline == worst.pipeline)
        why += ", by its stage " + std::to_string(worker.stage) + " since iteration " +
               std::to_string(worker.since);
  }
  detected = std::move(found);
  effects.save = true;
  deploy_choice(now, why);
}

/// Against an iteration at full clocks, in which healthy pipelines wait for stragglers too.
void Job::State::account_savings(const FinishedIteration& iteration, Seconds time) {
  double full = 0;
  for (const double energy : full_energy) {
    if (energy <= 0) return;
    full += energy;
  }
  double slowest = 1;
  std::vector<double> factors(static_cast<std::size_t>(spec.shape.data), 1.0);
  for (const Straggler& straggler : all_stragglers()) {
    factors[straggler.pipeline] = straggler.factor;
    slowest = std::max(slowest, straggler.factor);
  }
  // A straggler is never waited for longer than the iteration took.
  slowest = std::min(slowest, std::max(1.0, time / full_time));
  double saving = 0;
  for (int p = 0; p < spec.shape.data; ++p) {
    const double factor = std::min(factors[p], slowest);
    saving += factor * full + (plans->waiting_power() * full_time).value * (slowest - factor);
    for (int stage = 0; stage < spec.shape.stages; ++stage)
      saving -= iteration.groups[spec.shape.group(p, stage)].energy.value;
  }
  if (std::isfinite(saving)) saved += Joules{saving};
}

}  // namespace harpe
