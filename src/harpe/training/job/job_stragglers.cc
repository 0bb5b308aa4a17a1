// Pipelines that are slower than others, detected or declared: their measurement and own plans.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "harpe/base/statistics.h"
#include "harpe/base/text.h"
#include "harpe/training/job/job_state.h"

namespace harpe::training {
namespace {

constexpr double kSameTime = 0.005;    // relative; smaller changes of time are not worth a new plan
constexpr double kSameFactor = 0.015;  // relative, of factors, which change by at least 2 %
/// In standard deviations of single iterations, of which the median of eight has 0.44.
constexpr double kSameNoise = 1.5, kSameFactorNoise = 2.5, kMedianNoise = 0.44;
constexpr double kErrorsBetweenFactors = 3;  // standard errors within which factors are alike
constexpr double kLeastFactor = 1.005;       // of a straggler; slack absorbs smaller ones
constexpr double kLeastOutside = 0.02;  // of the fastest time; smaller declared delays are ignored
constexpr std::size_t kMostWatched = 16;  // pipelines with their own plans: each needs a search

bool differ(Seconds one, Seconds other, double by) {
  return std::abs(one / other - 1) > by;
}

bool differ(std::span<const double> some, std::span<const double> others, double by) {
  return !std::ranges::equal(some, others,
                             [by](double a, double b) { return std::abs(a / b - 1) < by; });
}

/// Replaces factors that differ by no more than noise with their mean.
void level(std::vector<double>& factors, double noise) {
  const auto [least, most] = std::ranges::minmax(factors);
  if (most > least * (1 + noise)) return;
  const double sum = std::accumulate(factors.begin(), factors.end(), 0.0);
  std::ranges::fill(factors, sum / static_cast<double>(factors.size()));
}

}  // namespace

const WatchedPipeline* Job::State::watched(int pipeline_number) const {
  const auto found = std::ranges::find(watched_pipelines, pipeline_number,
                                       [](const auto& one) { return one.slow.pipeline; });
  return found == watched_pipelines.end() ? nullptr : &*found;
}

WatchedPipeline* Job::State::watched(int pipeline_number) {
  return const_cast<WatchedPipeline*>(std::as_const(*this).watched(pipeline_number));
}

WatchedPipeline& Job::State::watch(int pipeline_number) {
  if (WatchedPipeline* known = watched(pipeline_number)) return *known;
  WatchedPipeline fresh;
  fresh.slow.pipeline = pipeline_number;
  fresh.slow.factors.assign(static_cast<std::size_t>(spec.shape.stages), 1.0);
  const auto position = std::ranges::lower_bound(watched_pipelines, pipeline_number, {},
                                                 [](const auto& one) { return one.slow.pipeline; });
  return *watched_pipelines.insert(position, std::move(fresh));
}

/// Returns the factor of each stage's computations, 1 if not known.
std::vector<double> Job::State::factors_of(int pipeline_number) const {
  std::vector<double> factors;
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    const std::size_t group = spec.shape.group(pipeline_number, stage);
    factors.push_back(detector.factor(group) == 1 ? 1 : detector.measured(group));
  }
  return factors;
}

/// Reads the factors of the watched pipelines from the detector again. Must be called when the
/// profile changes: factors are relative to it. If they changed only with the plans for the new
/// profile, a snapshot in between would combine the new profile with the old factors.
void Job::State::refresh_factors() {
  for (WatchedPipeline& one : watched_pipelines) one.slow.factors = factors_of(one.slow.pipeline);
}

bool Job::State::is_slow(int pipeline_number) const {
  for (int stage = 0; stage < spec.shape.stages; ++stage)
    if (detector.factor(spec.shape.group(pipeline_number, stage)) != 1) return true;
  return false;
}

/// Updates the costs of the pipeline from its measured times.
/// \returns  true if they have changed
bool Job::State::measure(WatchedPipeline& one) {
  plan::SlowPipeline& slow = one.slow;
  const double noise = detector.deviation();
  slow.error = kMedianNoise * noise;
  std::vector<double> factors = factors_of(slow.pipeline);
  level(factors, kSameTime + kErrorsBetweenFactors * slow.error);
  const Seconds fastest = times->at_all_max(factors);
  const bool changed =
      slow.fastest <= Seconds{0} ||
      differ(fastest, slow.fastest, std::max(kSameTime, kSameNoise * noise)) ||
      differ(factors, slow.factors, std::max(kSameFactor, kSameFactorNoise * noise));
  if (changed) {
    slow.own.reset();
    slow.factors = std::move(factors);
    slow.fastest = fastest;
  }
  if (one.declared > 1 && plans) {
    const Seconds fastest_plan = plans->plans().front().time;
    if (one.declared_time <= Seconds{0}) one.declared_time = fastest_plan * one.declared;
    // A delay that a probe took for one outside of computations may have been in them.
    const Seconds most = std::max(Seconds{0}, one.declared_time - slow.fastest);
    slow.outside = one.outside_seen ? std::min(slow.outside, most) : most;
    const bool is_little = slow.outside < fastest_plan * kLeastOutside;
    if (!one.outside_seen && slow.settled && is_little) slow.outside = {};
  }
  return changed;
}

/// Updates the pipelines that have their own costs.
void Job::State::settle(const FinishedIteration& iteration) {
  for (const SlowWorker& worker : detector.workers()) {
    const bool room = watched_pipelines.size() < kMostWatched;
    if (watched(worker.pipeline) == nullptr && room) {
      measure(watch(worker.pipeline));
      if (may_be_unsteady(worker.pipeline, worker.stage))
        findings.push_back(
            {.iteration = iteration.iteration, .stage = worker.stage, .pipeline = worker.pipeline});
      review_due = true;
    }
  }
  const auto healthy = [&](const WatchedPipeline& one) {
    return one.declared == 1 && !is_slow(one.slow.pipeline);
  };
  review_due = std::erase_if(watched_pipelines, healthy) > 0 || review_due;
  for (WatchedPipeline& one : watched_pipelines) {
    plan::SlowPipeline& slow = one.slow;
    if (one.not_before > 0 && iteration.iteration >= one.not_before) {
      one.not_before = 0;
      review_due = true;
    }
    if (one.all_max_from >= 0) {
      settle_at_all_max(one, iteration.iteration);
      continue;
    }
    if (!slow.settled) continue;
    // Its costs differ from the planned ones, so its fastest time must be measured again.
    const double noise = std::max(kSameFactor, kSameFactorNoise * detector.deviation());
    if (!differ(factors_of(slow.pipeline), slow.factors, noise)) continue;
    slow.settled = false;
    measure(one);
    if (iteration.iteration - one.changed_at > kChangesWithin) one.changes = 0;
    one.changed_at = iteration.iteration;
    one.not_before = iteration.iteration + pause_after(one.changes++);
    review_due = true;
  }
}

/// Returns the number of iterations at all-max that measure a pipeline.
int Job::State::iterations_to_settle() const {
  constexpr double kLittle = 0.004, kMuch = 0.012;
  const double noise = detector.deviation();
  return noise < kLittle ? 3 : noise < kMuch ? 6 : 8;
}

void Job::State::settle_at_all_max(WatchedPipeline& one, std::int64_t iteration) {
  plan::SlowPipeline& slow = one.slow;
  if (iteration < one.all_max_from) return;
  if (std::exchange(one.all_max_begins, false)) {
    for (int stage = 0; stage < spec.shape.stages; ++stage)
      detector.measure_anew(spec.shape.group(slow.pipeline, stage));
    return;
  }
  const int needed = iterations_to_settle();
  int known = needed;
  for (int stage = 0; stage < spec.shape.stages; ++stage)
    known = std::min(known, detector.known(spec.shape.group(slow.pipeline, stage)));
  if (known < needed) return;
  const bool first = !std::exchange(slow.settled, true);
  const bool changed = measure(one);
  review_due = review_due || first || changed;
}

/// Responds to changes of stages and pipelines.
void Job::State::review(Seconds now) {
  if (probe() != nullptr) return;  // all run at all-max anyway
  if (review_stages(now) || measure_unsteady(now)) return;
  if (!std::exchange(review_due, false)) return;
  std::string why = "stragglers have recovered";
  if (!detector.workers().empty()) {
    const SlowWorker& worst = detector.workers().front();
    const auto stages =
        std::ranges::count(detector.workers(), worst.pipeline, &SlowWorker::pipeline);
    why = stages == spec.shape.stages ? "" : "stage " + std::to_string(worst.stage) + " of ";
    why += "pipeline " + std::to_string(worst.pipeline) + " takes " + shortest(worst.factor, 2) +
           " times as long since iteration " + std::to_string(worst.since);
  } else if (!watched_pipelines.empty()) {
    const bool is_declared = std::ranges::any_of(
        watched_pipelines, [](const WatchedPipeline& one) { return one.declared > 1; });
    why = is_declared ? "stragglers are declared" : "slow pipelines have been measured again";
  }
  effects.save = true;
  if (!detector.workers().empty()) guard.forget_since(detector.workers().front().since);
  deploy_choice(now, why);
  ask_for_own_plans();
  if (const WatchedPipeline* one = unseen_outside()) {
    begin_probe(false, now,
                "pipeline " + std::to_string(one->slow.pipeline) +
                    " is measured at all-max, to check its declared factor");
    // A probe that cannot begin now, such as before a pause, begins as soon as it can.
    if (probe() == nullptr) next_probe = std::min(next_probe, collector.newest());
  }
}

// --- Plans for the costs of one pipeline --------------------------------------------------------

CharacterizeRequest Job::State::own_plans_request(const WatchedPipeline& one) const {
  StageCosts costs{.time = one.slow.factors, .energy = one.slow.factors, .held = {}};
  for (int stage = 0; stage < spec.shape.stages; ++stage)
    costs.held.push_back(costs.time[stage] > 1 && is_held(one.slow.pipeline, stage));
  return {.ticket = one.own_ticket,
          .profile = with_costs(costs),
          .compare_with = profile,
          .blocking_power = blocking_power,
          .times = {one.own_until},
          .reserve = reserve,
          .client = plans_for,
          .learned_latency = late_clocks.learned()};
}

/// Requests plans for one pipeline at a time, the slowest first.
void Job::State::ask_for_own_plans() {
  if (deployments.empty() || deployments.back().purpose != StageAssignment::Purpose::kPlan) return;
  if (std::ranges::any_of(watched_pipelines, [](const auto& one) { return one.own_ticket != 0; }))
    return;
  const Seconds wait_until = deployments.back().choice.wait_until;
  WatchedPipeline* next = nullptr;
  for (WatchedPipeline& one : watched_pipelines) {
    const Seconds until = plan::end_of_computations(one.slow, wait_until, overhead());
    const bool has = one.slow.own != nullptr && !differ(one.own_until, until, kSameTime);
    if (!one.slow.settled || plan::is_uniform(one.slow) || has || one.own_failed) continue;
    if (next == nullptr || one.slow.least_time() > next->slow.least_time()) next = &one;
  }
  if (next == nullptr) return;
  next->own_until = plan::end_of_computations(next->slow, wait_until, overhead());
  next->own_ticket = ++ticket;
  effects.more_plans.push_back(own_plans_request(*next));
}

void Job::State::take_own_plans(WatchedPipeline& one, Result<plan::PlanTable> table, Seconds now) {
  one.own_ticket = 0;
  one.own_failed = !table.ok() || !fits(*table);
  // If the pipeline is not settled, its costs have changed since the request.
  const bool current = one.slow.settled;
  if (!one.own_failed && current) {
    one.slow.own = std::make_shared<const plan::PlanTable>(*std::move(table));
    if (probe() != nullptr) {
      review_due = true;
    } else {
      deploy_choice(now, "plans for pipeline " + std::to_string(one.slow.pipeline) + " are ready");
    }
  }
  ask_for_own_plans();
}

// --- Declared stragglers ------------------------------------------------------------------------

void Job::State::declare(const plan::Straggler& straggler) {
  WatchedPipeline& one = watch(straggler.pipeline);
  one.declared = straggler.factor;
  one.declared_time = {};
  one.outside_seen = false;
  one.slow.doubted = {};
  review_due = true;
  if (times) measure(one);
}

/// Removes a pipeline that is declared healthy, or whose declaration has expired. If it is still
/// slow, its times will show it.
void Job::State::withdraw(int pipeline_number) {
  std::erase_if(watched_pipelines,
                [&](const auto& one) { return one.slow.pipeline == pipeline_number; });
  for (int stage = 0; stage < spec.shape.stages; ++stage)
    detector.assume(spec.shape.group(pipeline_number, stage), 1);
}

/// Returns the slow pipelines for the choice of plans.
std::vector<plan::SlowPipeline> Job::State::slow_pipelines() const {
  std::vector<plan::SlowPipeline> all;
  for (const WatchedPipeline& one : watched_pipelines) {
    all.push_back(one.slow);
    all.back().at_all_max = collector.newest() < one.not_before;
  }
  return all;
}

/// Returns all stragglers. A declared factor takes precedence over a detected one.
std::vector<plan::Straggler> Job::State::all_stragglers() const {
  std::vector<plan::Straggler> all = declared_stragglers;
  if (!times) return all;
  const Seconds usual = times->at_all_max();
  for (plan::Straggler& one : all) {
    const WatchedPipeline* followed = watched(one.pipeline);
    const bool is_seen = followed != nullptr && followed->slow.settled &&
                         (followed->outside_seen || followed->slow.outside == Seconds{0});
    if (is_seen) one.seen = followed->slow.least_time() / usual;
  }
  for (const WatchedPipeline& one : watched_pipelines) {
    const double factor = one.slow.fastest / usual;
    if (one.declared == 1 && factor > kLeastFactor)
      all.push_back({.pipeline = one.slow.pipeline, .factor = factor, .detected = true});
  }
  return all;
}

}  // namespace harpe::training
