#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "harpe/base/statistics.h"
#include "harpe/base/text.h"
#include "harpe/training/job/job_state.h"

namespace harpe::training {
namespace {

constexpr std::size_t kNewestTimes = 5;  // their median is the iteration time
constexpr int kFewestToCompare = 3;      // pipelines whose median serves as prediction
constexpr int kFewestToObserve = 2;      // in observed jobs, where no clock depends on it
constexpr double kAlike = 1.02;          // factors up to this do not show a straggler
constexpr std::int64_t kMissing = 2, kWholeAgain = 2;  // iterations
constexpr float kLate = 1.01F;        // least lateness of a single iteration, over the known factor
constexpr std::size_t kMostLate = 4;  // pipelines that are examined: each takes a pass
constexpr Seconds kNoEnergyPatience{30};  // short instructions take a while to measure apart
constexpr double kUnknownTime = std::numeric_limits<double>::quiet_NaN();
constexpr Seconds kSavingsStored{60};  // between snapshots made only for the savings
/// Relative error of a straggler's predicted energy at all-max above that of a healthy pipeline.
constexpr double kPredictedError = 0.05;

Seconds longest(const FinishedIteration& iteration) {
  Seconds time{0};
  for (const GroupIteration& group : iteration.groups) time = std::max(time, group.time);
  return time;
}

/// Returns true if every rank has reported, all by the same assignments.
bool whole(const FinishedIteration& iteration, const JobShape& shape) {
  return std::ranges::all_of(iteration.groups, [&](const GroupIteration& group) {
    return group.ranks == shape.tensor && group.same_version && group.version != 0 &&
           group.version == iteration.groups.front().version;
  });
}

}  // namespace

void Job::State::finish(const FinishedIteration& iteration, Seconds now) {
  const Seconds time = longest(iteration);
  if (time <= Seconds{0}) return;
  newest_times.push_back(time.value);
  if (newest_times.size() > kNewestTimes) newest_times.pop_front();
  iteration_time = {quantile(std::vector(newest_times.begin(), newest_times.end()), 0.5)};
  if (warm_from < 0) warm_from = iteration.iteration + spec.profiling.warm_up;

  held.resize(iteration.groups.size());
  for (std::size_t group = 0; group < held.size(); ++group) {
    const std::uint8_t now_held = iteration.groups[group].throttled ? 1 : 0;
    held[group] = static_cast<std::uint8_t>(held[group] << 1 | now_held);
  }
  relative_times(iteration);
  detector.add(iteration.iteration, relative);
  find_late();
  if (observing() != nullptr) return observe_iteration(iteration);
  const Deployment* by =
      whole(iteration, spec.shape) ? with_version(iteration.groups.front().version) : nullptr;
  if (by != nullptr) note_whole(iteration.iteration);
  // The first iteration of new assignments does not count, because clocks change within it.
  const bool counts =
      by != nullptr && iteration.iteration > by->from && iteration.iteration >= warm_from;
  const bool by_plan = counts && by->purpose == StageAssignment::Purpose::kPlan;
  const bool at_all_max = counts && !by_plan && by->stage_clocks == highest_clocks();
  if (by_plan || at_all_max) note_energies(iteration, *by);
  if (at_all_max) note_all_max(iteration, time);
  if (profiling() != nullptr) return profile_iteration(iteration, now);
  if (running() == nullptr) return;
  if (retry_at) return retry_when_due(now);
  if (!plans) return;
  settle(iteration);
  if (by_plan) plan_iteration(iteration, *by, time, now);
  if (probe() != nullptr) probe_iteration(iteration, at_all_max ? time : Seconds{0}, now);
  if (running() == nullptr || retry_at) return;  // pipelines are reviewed with the next plans
  review(now);
  probe_when_due(now);
}

/// Notes an iteration that all ranks have reported. If the reports of as many iterations as a probe
/// measures were missing, and three whole iterations in a row followed, a probe that failed without
/// them is repeated at once. Single whole iterations among incomplete ones do not count.
void Job::State::note_whole(std::int64_t iteration) {
  const std::int64_t missing = iteration - std::exchange(newest_whole, iteration) - 1;
  if (missing != 0) whole_again = missing > kMissing ? iteration : -1;
  const bool is_over = whole_again >= 0 && iteration == whole_again + kWholeAgain;
  if (is_over && probes_in_vain > 0) next_probe = std::min(next_probe, iteration);
}

double Job::State::compute_time(const FinishedIteration& iteration, int pipeline_number,
                                int stage) const {
  const std::vector<plan::WorkItem>& items = work.stage(stage);
  double time = 0;
  for (std::size_t k = 0; k < items.size(); ++k) {
    const std::size_t at = iteration.item(pipeline_number, work.first(stage) + k);
    time += double{iteration.item_time[at]} * items[k].count;
  }
  return time;
}

/// Returns the joules of all shards.
double Job::State::compute_energy(const FinishedIteration& iteration, int pipeline_number,
                                  int stage) const {
  const std::vector<plan::WorkItem>& items = work.stage(stage);
  double energy = 0;
  for (std::size_t k = 0; k < items.size(); ++k) {
    const std::size_t at = iteration.item(pipeline_number, work.first(stage) + k);
    energy += double{iteration.item_energy[at]} * items[k].count;
  }
  return energy;
}

/// Returns the predicted time of a group's computations by these assignments; NaN if not known.
double Job::State::predicted_compute(const Deployment& by, int pipeline_number, int stage) const {
  if (!times || by.version < judged_from) return kUnknownTime;
  if (by.purpose == StageAssignment::Purpose::kPlan)
    return by.plan(pipeline_number).compute_time[stage].value;
  return by.stage_clocks[stage] == highest_known[stage] ? fastest_time[stage].value : kUnknownTime;
}

/// Sets `relative`: compute times over the profile's predictions, or, while profiling, over the
/// median of the stage. Observed jobs have no profile: of two pipelines, the faster one is the
/// reference.
void Job::State::relative_times(const FinishedIteration& iteration) {
  relative.resize(iteration.groups.size());
  std::vector<double> known;
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    known.clear();
    const int fewest = observing() == nullptr ? kFewestToCompare : kFewestToObserve;
    for (int p = 0; p < spec.shape.data && spec.shape.data >= fewest; ++p) {
      const double time = compute_time(iteration, p, stage);
      if (std::isfinite(time)) known.push_back(time);
    }
    const double share = spec.shape.data >= kFewestToCompare ? 0.5 : 0;
    const double middle = known.empty() ? kUnknownTime : quantile(known, share);
    for (int p = 0; p < spec.shape.data; ++p) {
      const std::size_t number = spec.shape.group(p, stage);
      const Deployment* by = with_version(iteration.groups[number].version);
      double predicted = observing() == nullptr ? kUnknownTime : middle;
      if (by != nullptr && iteration.iteration > by->from) {
        predicted = by->purpose == StageAssignment::Purpose::kProfile
                        ? middle
                        : predicted_compute(*by, p, stage);
      }
      relative[number] = static_cast<float>(compute_time(iteration, p, stage) / predicted);
    }
  }
}

/// Sets `late_at_all_max`: the time of the newest iteration if it had run at all-max, from the
/// measured computations of the pipelines that were later than their known factors.
void Job::State::find_late() {
  late_at_all_max = Seconds{0};
  if (!times) return;
  std::vector<std::pair<float, int>> late;  // pipelines, by their latest stage
  for (int p = 0; p < spec.shape.data; ++p) {
    const WatchedPipeline* known = watched(p);
    float most = 1;
    for (int stage = 0; stage < spec.shape.stages; ++stage) {
      const double factor = known == nullptr ? 1 : known->slow.factors[stage];
      const float beyond = relative[spec.shape.group(p, stage)] / static_cast<float>(factor);
      if (std::isfinite(beyond)) most = std::max(most, beyond);
    }
    if (most > kLate) late.emplace_back(most, p);
  }
  const std::size_t most = std::min(late.size(), kMostLate);
  std::ranges::partial_sort(late, late.begin() + static_cast<std::ptrdiff_t>(most), std::greater());
  for (std::size_t i = 0; i < most; ++i) {
    std::vector<double> factors;
    for (int stage = 0; stage < spec.shape.stages; ++stage) {
      const std::size_t group = spec.shape.group(late[i].second, stage);
      factors.push_back(std::isfinite(relative[group]) ? relative[group] : detector.factor(group));
    }
    late_at_all_max = std::max(late_at_all_max, times->at_all_max(factors));
  }
}

/// Keeps the ratios of measured to predicted energy of computations, to rescale the profile.
void Job::State::note_energies(const FinishedIteration& iteration, const Deployment& by) {
  constexpr std::size_t kNewest = 3;
  if (!times || by.version < judged_from) return;
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    double used = 0, predicted = 0;
    for (int p = 0; p < spec.shape.data; ++p) {
      used += compute_energy(iteration, p, stage);
      const Joules energy = by.purpose == StageAssignment::Purpose::kPlan
                                ? by.plan(p).compute_energy[stage]
                                : fastest_energy[stage];
      predicted += energy.value * spec.shape.tensor;
    }
    std::deque<double>& ratios = energy_ratios[stage];
    if (std::isfinite(used / predicted)) ratios.push_back(used / predicted);
    if (ratios.size() > kNewest) ratios.pop_front();
  }
}

/// Returns the computation time of each stage (0 if not reported) of the pipelines that may be the
/// slowest, one pipeline after the other: the two with the latest stages, and the two that are the
/// latest over all stages.
std::vector<Seconds> Job::State::latest_pipelines(const FinishedIteration& iteration) const {
  constexpr std::size_t kOfEach = 2;
  const auto stages = static_cast<std::size_t>(spec.shape.stages);
  std::vector<std::vector<Seconds>> pipelines(static_cast<std::size_t>(spec.shape.data));
  std::vector<double> latest_stage(pipelines.size()), of_all_stages(pipelines.size());
  for (std::size_t stage = 0; stage < stages; ++stage) {
    double sum = 0, known = 0;
    for (std::size_t p = 0; p < pipelines.size(); ++p) {
      const double time = compute_time(iteration, static_cast<int>(p), static_cast<int>(stage));
      pipelines[p].push_back({std::isfinite(time) ? time : 0});
      sum += pipelines[p].back().value;
      known += pipelines[p].back().value > 0 ? 1 : 0;
    }
    for (std::size_t p = 0; p < pipelines.size() && sum > 0; ++p) {
      const double lateness = pipelines[p].back().value / sum * known;
      latest_stage[p] = std::max(latest_stage[p], lateness);
      of_all_stages[p] += lateness;
    }
  }
  std::vector<Seconds> latest;
  std::vector<std::size_t> order(pipelines.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::set<std::size_t> kept;
  for (const auto* lateness : {&latest_stage, &of_all_stages}) {
    const std::size_t most = std::min(kOfEach, order.size());
    std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(most),
                              std::greater(), [&](std::size_t p) { return (*lateness)[p]; });
    kept.insert(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(most));
  }
  for (const std::size_t p : kept)
    latest.insert(latest.end(), pipelines[p].begin(), pipelines[p].end());
  return latest;
}

void Job::State::note_all_max(const FinishedIteration& iteration, Seconds time) {
  std::vector<AllMaxBaseline::StageEnergy> energies;
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    AllMaxBaseline::StageEnergy mean{.energy = 0, .time = time, .computing = {}};
    std::vector<double> computing;
    for (int p = 0; p < spec.shape.data; ++p) {
      mean.energy += iteration.groups[spec.shape.group(p, stage)].energy.value / spec.shape.data;
      const double one = compute_time(iteration, p, stage);
      if (std::isfinite(one)) computing.push_back(one);
    }
    for (const double one : computing)
      mean.computing += Seconds{one / static_cast<double>(computing.size())};
    energies.push_back(mean);
  }
  // Iterations of a probe are first compared with the baseline, see `judge`. Before a declared
  // delay is seen, it is not known if the baseline includes it.
  if (probe() == nullptr && unseen_outside() == nullptr && are_as_known()) {
    // For assignments from before the profile, only computation times show what was late.
    const bool is_compared = times && iteration.groups.front().version >= judged_from;
    std::vector<Seconds> latest =
        is_compared ? std::vector<Seconds>() : latest_pipelines(iteration);
    const Seconds explained = is_compared ? explained_at_all_max() : explained_by(latest);
    baseline.add_time(time, times ? explained : Seconds{0}, std::move(latest));
  }
  if (!detector.stages().empty()) return;
  // A look consists of consecutive iterations. Energies may have changed since earlier ones, such
  // as those before the server was killed.
  constexpr std::int64_t kMostApart = 5;
  const bool goes_on = newest_all_max && iteration.iteration - *newest_all_max <= kMostApart;
  if (!goes_on && savings.has_level()) baseline.leave_untaken();
  newest_all_max = iteration.iteration;
  baseline.add_energy(energies);
}

void Job::State::profile_iteration(const FinishedIteration& iteration, Seconds now) {
  std::vector<bool> left_out(static_cast<std::size_t>(spec.shape.groups()));
  const auto leave_out = [&](int pipeline_number) {
    for (int stage = 0; stage < spec.shape.stages; ++stage)
      left_out[spec.shape.group(pipeline_number, stage)] = true;
  };
  for (const plan::Straggler& straggler : declared_stragglers) leave_out(straggler.pipeline);
  for (const SlowWorker& worker : detector.workers()) leave_out(worker.pipeline);
  const Profiler::Next next = profiling()->profiler.add(iteration, left_out, lead());
  if (next == Profiler::Next::kDone) return end_profiling(now);
  if (next == Profiler::Next::kAnew) {
    forget_all_max();
    add_event(JobEvent::Level::kInfo, now,
              "the time of a stage has changed since it was measured at its highest clock: it is "
              "measured again from there");
  }
  if (next != Profiler::Next::kStay) deploy_profile();
  note_missing_energy(*profiling(), now);
}

void Job::State::note_missing_energy(Profiling& in, Seconds now) {
  if (in.no_energy_logged) return;
  const std::vector<int> stages = in.profiler.without_energy();
  if (stages.empty()) {
    in.no_energy_since.reset();
  } else if (!in.no_energy_since) {
    in.no_energy_since = now;
  } else if (now - *in.no_energy_since > kNoEnergyPatience) {
    in.no_energy_logged = true;
    add_event(JobEvent::Level::kWarning, now,
              "no plan is possible yet: no rank of stage " + std::to_string(stages.front()) +
                  (stages.size() > 1 ? " (or of other stages)" : "") +
                  " reports the time and energy of all its instructions" +
                  (spec.profiling.as_is ? " and the clock of its GPU" : ""));
  }
}

/// Returns the predicted joules of a stage of a pipeline, all shards, in an iteration of `time`.
double Job::State::predicted_energy(const plan::TablePlan& plan, int stage, Seconds time) const {
  const Joules waiting = blocking_power[stage] * (time - plan.compute_time[stage]);
  return (plan.compute_energy[stage] + waiting).value * spec.shape.tensor;
}

/// Returns the predicted joules of a stage at all-max, all shards, in an iteration of `time`.
/// \param factor  computation time of the stage over the profile's
double Job::State::explained_energy(int stage, Seconds time, double factor) const {
  const Joules waiting = blocking_power[stage] * (time - fastest_time[stage] * factor);
  return (fastest_energy[stage] * factor + waiting).value * spec.shape.tensor;
}

/// Returns the function that explains the joules of a measured iteration. It may have had a
/// straggler, known or not. Computations faster than the profile are not corrected, because a
/// profile has the times of the slowest pipelines.
AllMaxBaseline::Explained Job::State::explained_energy() const {
  return [this](int stage, const AllMaxBaseline::StageEnergy& one) {
    return explained_energy(stage, one.time, std::max(1.0, one.computing / fastest_time[stage]));
  };
}

/// Returns the function for savings, without the overhead and the usual lateness, because
/// iterations by plans have both as well. Lateness of up to four standard deviations is usual.
AllMaxBaseline::Explained Job::State::explained_but_usual() const {
  constexpr double kUsual = 4;  // standard deviations of single iterations
  const double alike = std::max(kAlike, 1 + kUsual * detector.deviation());
  const Seconds usual = all_max_time(), beyond = baseline.overhead();
  return [this, alike, usual, beyond](int stage, const AllMaxBaseline::StageEnergy& one) {
    const double factor = one.computing / fastest_time[stage];
    const bool is_usual = one.time < usual * alike && usual < one.time * alike;
    const Seconds time = (is_usual ? usual : one.time) - beyond;
    return explained_energy(stage, time, factor > alike ? factor : 1);
  };
}

/// Returns the predicted joules of a pipeline at all-max with these factors; healthy if empty.
double Job::State::explained_energy(std::span<const double> factors, Seconds time) const {
  double sum = 0;
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    sum += explained_energy(stage, time, factors.empty() ? 1 : factors[stage]);
  }
  return sum;
}

/// Returns true if no stage of the pipeline has become faster than its known factor.
bool Job::State::is_as_known(const WatchedPipeline& one) const {
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    const float now_takes = relative[spec.shape.group(one.slow.pipeline, stage)];
    if (now_takes * kAlike < one.slow.factors[stage]) return false;
  }
  return true;
}

/// Returns true if no watched pipeline has a stage that has become faster than its known factor.
bool Job::State::are_as_known() const {
  return std::ranges::all_of(watched_pipelines,
                             [this](const WatchedPipeline& one) { return is_as_known(one); });
}

/// Forgets the measured iterations at all-max. No saving counts before the next look.
void Job::State::forget_all_max() {
  baseline.forget();
  savings.forget_level();
}

/// Returns the joules of all GPUs that the plans in force explain. A computation that takes longer
/// than planned is assumed to use more energy in proportion.
double Job::State::explained_by_plan(const FinishedIteration& iteration,
                                     const Deployment& deployment, Seconds time) const {
  double sum = 0;
  for (int p = 0; p < spec.shape.data; ++p) {
    const plan::TablePlan& plan = deployment.plan(p);
    for (int stage = 0; stage < spec.shape.stages; ++stage) {
      const Seconds planned = plan.compute_time[stage];
      const double factor = compute_time(iteration, p, stage) / planned.value;
      const double longer = factor > 1 && std::isfinite(factor) ? factor : 1;
      const Joules waiting = blocking_power[stage] * (time - planned * longer);
      sum += (plan.compute_energy[stage] * longer + waiting).value * spec.shape.tensor;
    }
  }
  return sum;
}

/// Adds the saving over the same iteration at all-max, in which healthy pipelines also wait for
/// stragglers. Nothing is added while a straggler may have recovered or a declared delay is unseen.
void Job::State::account_savings(const FinishedIteration& iteration, const Deployment& deployment,
                                 Seconds time, Seconds now) {
  std::vector<double> beyond = baseline.take_unexplained(explained_but_usual());
  for (double& one : beyond) one *= spec.shape.data;
  savings.look(beyond, newest_all_max);
  if (all_max_time() <= Seconds{0} || unseen_outside() != nullptr) return;
  const Seconds at_all_max = all_max_time() - baseline.overhead();
  if (!are_as_known()) return;
  const double healthy = explained_energy({}, at_all_max);
  Savings::ByPlan by_plan{.number = iteration.iteration,
                          .by_plan = explained_by_plan(iteration, deployment, time),
                          .at_all_max = healthy * spec.shape.data};
  for (const WatchedPipeline& one : watched_pipelines) {
    const double more = explained_energy(one.slow.factors, at_all_max) - healthy;
    by_plan.at_all_max += more;
    by_plan.at_all_max_error += kPredictedError * std::abs(more);
  }
  for (const GroupIteration& group : iteration.groups) {
    by_plan.used += group.energy.value;
    by_plan.used_error = std::hypot(by_plan.used_error, group.energy_error.value);
  }
  const bool counts = savings.add(deployment.first_version, by_plan);
  if (!counts || now - saved_stored < kSavingsStored) return;
  saved_stored = now;
  effects.save = true;
}

/// Adds the energies of the stages to `drift`: if they change while times do not, other plans use
/// the least energy.
void Job::State::watch_energy(const FinishedIteration& iteration, const Deployment& deployment,
                              Seconds time) {
  if (!watched_pipelines.empty() || !baseline.has_energy()) return;
  std::vector<double> ratios, computed;
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    const double unexplained = baseline.unexplained(stage, explained_energy());
    double used = 0, predicted = 0, in_computations = 0, by_profile = 0;
    for (int p = 0; p < spec.shape.data; ++p) {
      const plan::TablePlan& plan = deployment.plan(p);
      used += iteration.groups[spec.shape.group(p, stage)].energy.value;
      predicted += predicted_energy(plan, stage, time) + unexplained;
      in_computations += compute_energy(iteration, p, stage);
      by_profile += plan.compute_energy[stage].value * spec.shape.tensor;
    }
    ratios.push_back(used / predicted);
    computed.push_back(in_computations / by_profile);
  }
  drift.add(ratios, computed);
}

DriftWatch::DriftWatch(int stages, Options options)
    : options_(options), stages_(static_cast<std::size_t>(stages)) {
  reset();
}

void DriftWatch::reset() {
  const std::vector<double> unknown(static_cast<std::size_t>(options_.window),
                                    std::numeric_limits<double>::quiet_NaN());
  for (Ratios& ratios : stages_) ratios = {.all = unknown, .computations = unknown};
  next_ = 0;
}

void DriftWatch::add(std::span<const double> all, std::span<const double> computations) {
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    stages_[stage].all[next_] = all[stage];
    stages_[stage].computations[next_] = computations[stage];
  }
  next_ = (next_ + 1) % static_cast<std::size_t>(options_.window);
}

std::vector<DriftWatch::Moved> DriftWatch::moved() const {
  std::vector<Moved> stages;
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    const Ratios& ratios = stages_[stage];
    const auto above =
        std::ranges::count_if(ratios.all, [&](double ratio) { return ratio > 1 + options_.bound; });
    const auto below =
        std::ranges::count_if(ratios.all, [&](double ratio) { return ratio < 1 - options_.bound; });
    if (std::max(above, below) < options_.needed) continue;
    std::vector<double> known;
    for (const double ratio : ratios.computations)
      if (std::isfinite(ratio)) known.push_back(ratio);
    stages.push_back({.stage = static_cast<int>(stage),
                      .factor = known.empty() ? std::numeric_limits<double>::quiet_NaN()
                                              : quantile(known, 0.5)});
  }
  return stages;
}

}  // namespace harpe::training
