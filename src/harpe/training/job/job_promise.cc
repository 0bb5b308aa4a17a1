// The promise to the user: checks that iterations keep it, with all-max as the yardstick.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "harpe/base/statistics.h"
#include "harpe/base/text.h"
#include "harpe/training/job/job_state.h"
#include "harpe/training/job/make_plans.h"

namespace harpe::training {
namespace {

constexpr double kTolerance = 0.005;  // relative, of the promise
// A probe costs only the energy that a plan would save, no time. The first begins after 100
// iterations, later ones at growing intervals: at most 1 % of 400 or more iterations, later 0.25 %.
constexpr std::int64_t kProbe = 4, kAlarmProbe = 7;  // iterations; the first one does not count
constexpr std::int64_t kFirstPause = 700, kLongestPause = 1600;
// Pause while a stage may be slow only under its plan, which all-max reveals.
constexpr std::int64_t kDoubtfulPause = 200;
// Pause after a probe without a result, doubled each time.
constexpr std::int64_t kUnknownPause = 4;
constexpr int kMostUnknown = 4;  // doublings
/// Shares by which plans assume slow clocks to be slower than measured, see `reserve`.
constexpr std::array<double, 6> kReserves = {0, 0.02, 0.05, 0.1, 0.2, 0.35};
constexpr double kPerLateness = 2;
constexpr std::int64_t kRollBack = 200;  // iterations at all-max, doubled each time
constexpr int kMostDoublings = 4;
constexpr std::size_t kFewest = 20;    // iterations by a plan needed to judge it
constexpr std::size_t kCompared = 32;  // newest of these iterations that are compared
/// Standard errors needed for certainty; fewer if random lateness is seen, which explains delays.
constexpr double kErrors = 3, kErrorsOfLateness = 1;
constexpr double kDoubted = 0.02;  // least unseen declared delay that is logged, of fastest time
constexpr double kUnknownError = 0.01;  // relative error of a baseline of few iterations
constexpr double kLeastSlow = 1.02;  // least factor of computations that counts; less may be noise

std::string percent(double fraction) {
  return shortest(fraction * 100, 1) + " %";
}

std::string seconds(Seconds time) {
  return shortest(time.value, 3) + " s";
}

}  // namespace

Seconds Job::State::overhead() const {
  return baseline.has_time() && times ? std::max(Seconds{0}, baseline.overhead()) : Seconds{0};
}

/// Returns the makespan at all-max of the slowest of these pipelines, at least `usual_time`.
/// \param computing  seconds of each stage of a pipeline, one pipeline after the other
Seconds Job::State::explained_by(std::span<const Seconds> computing) const {
  if (!times || computing.empty()) return usual_time;
  Seconds longest = usual_time;
  std::vector<double> factors(static_cast<std::size_t>(spec.shape.stages));
  for (; !computing.empty(); computing = computing.subspan(factors.size())) {
    for (std::size_t stage = 0; stage < factors.size(); ++stage) {
      const double factor = computing[stage] / fastest_time[stage];
      factors[stage] = factor > kLeastSlow ? factor : 1;
    }
    const bool is_late = std::ranges::any_of(factors, [](double one) { return one > 1; });
    if (is_late) longest = std::max(longest, times->at_all_max(factors));
  }
  return longest;
}

/// Returns the time at all-max of the pipelines without costs of their own; 0 if there are none.
Seconds Job::State::time_of_others() const {
  const auto known = std::ranges::count_if(
      watched_pipelines, [](const WatchedPipeline& one) { return one.slow.settled; });
  return known == spec.shape.data ? Seconds{0} : usual_time;
}

/// Returns the part of an iteration at all-max due to the computations of the slowest pipeline and
/// to declared delays that were confirmed by a probe.
Seconds Job::State::explained_usually() const {
  Seconds longest = time_of_others();
  for (const WatchedPipeline& one : watched_pipelines) {
    const Seconds outside = one.outside_seen ? one.slow.outside : Seconds{0};
    longest = std::max(longest, one.slow.fastest + outside);
  }
  return longest;
}

/// Returns the time of an iteration on the present machines without Harpe; 0 if not known. A
/// declared delay counts in full until a probe has measured it.
Seconds Job::State::all_max_time() const {
  if (!baseline.has_time()) return Seconds{0};
  if (!times) return baseline.time();
  Seconds longest = time_of_others();
  for (const WatchedPipeline& one : watched_pipelines)
    longest = std::max(longest, one.slow.least_time());
  return longest + baseline.overhead();
}

/// Returns the relative standard error of `all_max_time`.
double Job::State::all_max_error() const {
  const auto count = static_cast<double>(baseline.iterations());
  const double known = kMedianLoss * baseline.deviation() / std::sqrt(std::max(count, 1.0));
  const double of_baseline = count < kProbe - 1 ? std::max(known, kUnknownError) : known;
  double of_slow = 0;
  for (const WatchedPipeline& one : watched_pipelines) of_slow = std::max(of_slow, one.slow.error);
  return std::hypot(of_baseline, of_slow);
}

/// Returns the time that the objective allows an iteration that takes `fastest` at all-max; 0 if
/// the objective promises no time.
Seconds Job::State::allowed(Seconds fastest) const {
  if (fastest <= Seconds{0}) return Seconds{0};
  const Objective wanted = aim();
  const auto time = time_of(wanted, {.fastest = fastest, .all_max = fastest});
  if (!time) return Seconds{0};
  // The time of a straggler excludes the overhead, which every pipeline has.
  const bool adds = wanted.kind == Objective::Kind::kStragglerTime;
  return std::max(fastest, adds ? *time + overhead() : *time);
}

/// Handles an iteration by a plan.
void Job::State::plan_iteration(const FinishedIteration& iteration, const Deployment& deployment,
                                Seconds time, Seconds now) {
  // Plans that are being replaced are outdated, so their iterations are not judged.
  if (deployment.first_version != deployments.back().first_version || review_due) return;
  const Seconds late = std::max(Seconds{0}, late_at_all_max - explained_usually());
  const Seconds most = allowed(all_max_time() + late);
  if (most > Seconds{0} && guard.add(iteration.iteration, time, most)) {
    if (!std::exchange(stalls_logged, true)) {
      add_event(
          JobEvent::Level::kInfo, now,
          "iteration " + std::to_string(iteration.iteration) + " took " + seconds(time) +
              ": delayed outside of computations; such iterations do not count against the plan");
    }
    return;
  }
  note_late_clocks(iteration, deployment);
  account_savings(iteration, deployment, time, now);
  watch_energy(iteration, deployment, time);
  if (probe() != nullptr || most <= Seconds{0}) return;
  const double errors = detector.random() ? kErrorsOfLateness : PromiseGuard::kErrors;
  if (const auto broken = guard.broken(all_max_error(), errors)) {
    begin_probe(true, now,
                "iterations take " + percent(broken->ratio - 1) +
                    " longer than promised: their time at all-max is measured");
    probe()->compared = broken->iterations;
    return;
  }
  if (collector.newest() - calm_since > calm) relax(now);
}

double Job::State::errors_needed() const {
  return detector.random() ? kErrorsOfLateness : kErrors;
}

/// Reduces the reserve and the rollbacks after a long calm: plans that broke the promise long ago
/// may keep it now.
void Job::State::relax(Seconds now) {
  calm_since = collector.newest();
  rollbacks = std::max(0, rollbacks - 1);
  if (reserve == 0) return;
  const auto* const above = std::ranges::lower_bound(kReserves, reserve);
  reserve = *std::prev(above);
  calm = std::min(calm * 2, 16 * kUsualCalm);
  add_event(JobEvent::Level::kInfo, now,
            "the promise has been kept for a long time: plans with a smaller reserve are computed");
  request_plans(*profile, blocking_power, now);
}

// --- Probes -------------------------------------------------------------------------------------

void Job::State::probe_when_due(Seconds now) {
  if (running() == nullptr || probe() != nullptr || collector.newest() < next_probe) return;
  // If all-max is not known, no comparison is possible until a probe has measured it. Jobs that
  // promise no time are probed as well: their savings are compared with all-max, too.
  const bool waits_for_more =
      promises_time() && baseline.has_time() && guard.iterations() < kFewest && next_probe > 0;
  if (unseen_outside() != nullptr || !waits_for_more) begin_probe(false, now, {});
}

/// Returns a pipeline that others wait for because it was declared slower than its computations
/// show, and whose delay no probe has measured yet; null if there is none.
const WatchedPipeline* Job::State::unseen_outside() const {
  const auto found = std::ranges::find_if(watched_pipelines, [](const WatchedPipeline& one) {
    return one.slow.settled && one.slow.outside > Seconds{0} && !one.outside_seen;
  });
  return found == watched_pipelines.end() ? nullptr : &*found;
}

/// Deploys all-max for some iterations, and then the plan in force again. Does nothing if a pause
/// would begin before they end.
void Job::State::begin_probe(bool alarmed, Seconds now, const std::string& why) {
  if (probe() != nullptr || deployments.empty() ||
      deployments.back().purpose != StageAssignment::Purpose::kPlan ||
      objective.is_cap()) {  // all-max could break it
    return;
  }
  const std::int64_t from = next_from();
  const std::int64_t until = from + (alarmed ? kAlarmProbe : kProbe);
  // The result of a probe of a declared straggler reaches the ranks `lead()` iterations after the
  // probe. Until then all stay at all-max: the plan in force may wait for a healthy pipeline.
  const std::int64_t resumes = unseen_outside() != nullptr ? until + lead() : until;
  const bool will_pause = asked && asked->is_placed() && !asked->given_up;
  if (will_pause && collector.newest() + 1 < asked->from && asked->from < resumes) return;
  Deployment plan = deployments.back();
  const Seconds most = allowed(all_max_time());
  put(all_max_deployment(), from);
  const std::uint64_t at_all_max = in_force(from)->version;
  deploy(std::move(plan), resumes);
  running()->look = Probe{.version = at_all_max,
                          .restoring = in_force(resumes)->version,
                          .until = until,
                          .alarmed = alarmed,
                          .allowed = most,
                          .compared = kCompared,
                          .times = {},
                          .late = {}};
  log_probe(from, resumes, why, now);
}

/// Logs the probe, because clocks and power rise visibly. Probes that are repeated soon after one
/// without a result are not logged.
void Job::State::log_probe(std::int64_t from, std::int64_t resumes, const std::string& why,
                           Seconds now) {
  if (!why.empty()) return add_event(JobEvent::Level::kInfo, now, why);
  if (probes_in_vain > 0) return;
  add_event(JobEvent::Level::kInfo, now,
            "iterations " + std::to_string(from) + " to " + std::to_string(resumes - 1) +
                " run at all-max, to measure the iteration time without a plan again");
}

/// Ends the probe, if one is running, and discards its measurements.
void Job::State::end_probe() {
  if (probe() != nullptr) running()->look = {};
}

/// \param time  at all-max; 0 if not known
void Job::State::probe_iteration(const FinishedIteration& iteration, Seconds time, Seconds now) {
  Probe& begun = *probe();
  const bool is_measured = time > Seconds{0} && are_as_known();
  if (is_measured && iteration.groups.front().version == begun.version) {
    begun.times.push_back(time.value);
    begun.late.push_back(late_at_all_max.value);
  }
  // If a pause follows, the plan after the probe is deployed again, with the pause.
  const bool overtaken = with_version(begun.restoring) == nullptr;
  if (!overtaken && iteration.iteration + 1 < begun.until) return;
  const Probe done = std::move(begun);
  end_probe();
  if (overtaken) {
    if (!baseline.has_time()) learn(done);
  } else {
    // While all-max drifts, probes stay frequent.
    probe_pause =
        savings.has_moved() ? kFirstPause : std::clamp(probe_pause * 2, kFirstPause, kLongestPause);
    next_probe = collector.newest() + (findings.empty() ? probe_pause : kDoubtfulPause);
    if (done.times.size() >= 2) judge(done, now);
  }
  // A probe that was cut short, or whose iterations were not reported, is repeated soon. The wait
  // grows only after probes that ran to their end without a result.
  const bool is_known = baseline.has_time() && unseen_outside() == nullptr;
  const bool in_vain = !overtaken && done.times.empty();
  probes_in_vain = is_known ? 0 : in_vain ? std::min(probes_in_vain + 1, kMostUnknown) : 1;
  if (!is_known) next_probe = collector.newest() + (kUnknownPause << (probes_in_vain - 1));
}

/// Compares the iterations at all-max with their expected times and with those by the plan.
void Job::State::judge(const Probe& done, Seconds now) {
  const bool believed = !judge_outside(done, now);
  const double error = learn(done);
  // The plan did not cause delays that turned out not to exist.
  if (!believed) return guard.reset();
  const std::optional<PromiseGuard::Mean> by_plan = guard.mean(done.compared);
  const Seconds most = allowed(all_max_time());
  if (!by_plan || most <= Seconds{0}) return;
  const double over = by_plan->ratio * (done.allowed / most) - 1;
  const double certain = errors_needed() * std::hypot(by_plan->error, error);
  const bool enough = guard.iterations() >= (done.alarmed ? 1 : kFewest);
  if (over > kTolerance && over > certain && enough) return broken_promise(over, now);
  if (done.alarmed) {
    add_event(JobEvent::Level::kInfo, now,
              "an iteration at all-max takes " + seconds(all_max_time()) +
                  " now: the plan is not the cause, and stays");
  }
  guard.reset();
}

/// Adds the probe to the baseline, and first clears it if its overhead has changed.
/// \returns  the relative standard error of the time of an iteration at all-max
double Job::State::learn(const Probe& done) {
  std::vector<double> beyond;
  for (std::size_t i = 0; i < done.times.size(); ++i)
    beyond.push_back(done.times[i] - std::max(done.late[i], explained_usually().value));
  double error = 0;
  if (baseline.has_time() && !beyond.empty()) {
    error = std::max(all_max_error(),
                     baseline.deviation() * kMedianLoss / std::sqrt(done.times.size()));
    const Seconds moved = Seconds{lower_median(beyond)} - baseline.overhead();
    if (std::abs(moved / all_max_time()) > std::max(kTolerance, kErrors * error))
      baseline.forget_time();
  }
  for (std::size_t i = 0; i < beyond.size(); ++i)
    baseline.add_time({done.times[i]}, {done.times[i] - beyond[i]});
  return std::max(error, all_max_error());
}

/// Measures the delay of pipelines that were declared slower than their computations: the others
/// wait for it only if it also occurs at all-max. If all-max was not known before, the delay counts
/// as part of the overhead of all iterations, so that iterations are never longer than necessary.
/// \returns  true if a delay differs from the delay that the other pipelines waited for
bool Job::State::judge_outside(const Probe& done, Seconds now) {
  const bool is_known = baseline.has_time();
  Seconds computing = time_of_others();
  for (const WatchedPipeline& one : watched_pipelines)
    computing = std::max(computing, one.slow.fastest);
  // Computations that became slow in these very iterations explain their part of the delay.
  std::vector<double> beyond;
  for (std::size_t i = 0; i < done.times.size(); ++i)
    beyond.push_back(done.times[i] - std::max(done.late[i], computing.value));
  const Seconds outside =
      is_known ? Seconds{lower_median(beyond)} - baseline.overhead() : Seconds{0};
  const Seconds fastest = plans->plans().front().time;
  bool changed = false;
  for (WatchedPipeline& one : watched_pipelines) {
    if (one.declared == 1) continue;
    plan::SlowPipeline& slow = one.slow;
    const Seconds declared = std::max(Seconds{0}, one.declared_time - slow.fastest);
    const Seconds seen = std::clamp(outside, Seconds{0}, declared);
    slow.doubted = declared - seen;
    if (one.outside_seen && std::abs((seen - slow.outside) / fastest) < kTolerance) continue;
    if (!one.outside_seen && declared > Seconds{0} && !is_known) {
      add_event(JobEvent::Level::kInfo, now,
                "the time at all-max was unknown when pipeline " + std::to_string(slow.pipeline) +
                    " was declared: the others wait only for its computations");
    } else if (!one.outside_seen && declared - seen > fastest * kDoubted) {
      add_event(JobEvent::Level::kWarning, now,
                "pipeline " + std::to_string(slow.pipeline) + " is declared to be " +
                    shortest(one.declared) + " times slower, but at all-max it takes only " +
                    shortest((slow.fastest + seen) / usual_time, 2) +
                    " times as long as a healthy one: the others wait no longer than that");
    }
    const Seconds before =
        std::exchange(slow.outside, seen > fastest * kTolerance ? seen : Seconds{0});
    changed = changed || std::abs((slow.outside - before) / fastest) > kTolerance;
    one.outside_seen = true;
    review_due = true;
  }
  return changed;
}

/// Responds to iterations that exceed the allowed time, as measured at all-max on these machines.
void Job::State::broken_promise(double by, Seconds now) {
  calm_since = collector.newest();
  guard.reset();
  if (learn_late_clocks(by, now)) return;
  // A late instruction also delays its successors.
  const double late = detector.random() ? detector.random()->median - 1 : 0;
  const double least = std::max(by, kPerLateness * late);
  const auto* next =
      std::ranges::find_if(kReserves, [&](double one) { return one > reserve && one >= least; });
  if (next == kReserves.end())
    return roll_back(now, "iterations take " + percent(by) + " longer than promised");
  reserve = *next;
  add_event(
      JobEvent::Level::kWarning, now,
      "iterations take " + percent(by) +
          " longer than at all-max although computations take as long as planned: plans with a "
          "reserve of " +
          percent(reserve) + " are computed");
  request_plans(*profile, blocking_power, now);
}

/// Returns to all-max for a while, because no better plan is known.
void Job::State::roll_back(Seconds now, const std::string& why) {
  hold(kRollBack << std::min(rollbacks, kMostDoublings), now, why);
  ++rollbacks;
}

void Job::State::hold(std::int64_t iterations, Seconds now, const std::string& why) {
  retry_at = collector.newest() + iterations;
  add_event(JobEvent::Level::kWarning, now,
            why + ": all-max until iteration " + std::to_string(*retry_at) +
                ", or until the objective changes");
  effects.save = true;
  deploy_all_max();
}

void Job::State::retry_when_due(Seconds now) {
  if (collector.newest() < *retry_at || !profile || blocking_power.empty()) return;
  retry_at.reset();
  if (review_stages(now)) return;
  add_event(JobEvent::Level::kInfo, now, "plans are tried again");
  request_plans(*profile, blocking_power, now);
}

/// Keeps the computation times of the pipelines that run the same plan as the first one.
void Job::State::note_late_clocks(const FinishedIteration& iteration,
                                  const Deployment& deployment) {
  constexpr int kMostPipelines = 64;  // their median is as good as that of thousands
  std::vector<double> items;
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    for (std::size_t k = 0; k < work.stage(stage).size(); ++k) {
      std::vector<double> known;
      for (int p = 0; p < std::min(spec.shape.data, kMostPipelines); ++p) {
        const double time = iteration.item_time[iteration.item(p, work.first(stage) + k)];
        if (std::isfinite(time) && &deployment.plan(p) == &deployment.plan(0))
          known.push_back(time);
      }
      items.push_back(known.empty() ? std::numeric_limits<double>::quiet_NaN()
                                    : quantile(known, 0.5));
    }
  }
  late_clocks.add(deployment.version, std::move(items));
}

/// Makes plans that count late clocks, if late clocks explain the computation times by the plan.
/// \returns  true if new plans were requested
bool Job::State::learn_late_clocks(double by, Seconds now) {
  // Single changes differ from each other; the margin also covers a change that is sometimes later.
  constexpr double kMargin = 1.2;
  constexpr double kLearnedMore = 1.1;  // relative
  const Deployment* deployment = with_version(late_clocks.version());
  const std::vector<double> items = late_clocks.measured();
  if (deployment == nullptr || items.empty() ||
      deployment->purpose != StageAssignment::Purpose::kPlan)
    return false;
  const auto latency = latency_of(pipeline.schedule(), work, *profile, deployment->plan(0), items);
  if (!latency) return false;
  const Seconds counted = plan_options(spec, plans_request(), *profile).switch_latency.shortest();
  const Seconds learned = *latency * kMargin;
  if (learned < counted * kLearnedMore) return false;
  late_clocks.learn(learned);
  const auto milliseconds = [](Seconds time) { return shortest(1e3 * time.value, 1) + " ms"; };
  add_event(JobEvent::Level::kWarning, now,
            "iterations take " + percent(by) +
                " longer than at all-max, because clocks change about " + milliseconds(*latency) +
                " late: plans for a latency of " + milliseconds(learned) +
                " are computed (harpe switch-latency --table measures it)");
  request_plans(*profile, blocking_power, now);
  return true;
}

}  // namespace harpe::training
