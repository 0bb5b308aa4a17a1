// Pipelines and stages that are slower, or faster, than the profile says, and what follows.

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "harpe/base/statistics.h"
#include "harpe/base/text.h"
#include "harpe/job/job_state.h"

namespace harpe {
namespace {

constexpr double kSame = 0.005;        // relative, of times that are not worth a new plan
constexpr double kSameFactor = 0.015;  // the same of factors: they change by 2 % at least
/// The same in deviations of single iterations: the medians of eight have 0.44 of it.
constexpr double kSameNoise = 1.5, kSameFactorNoise = 2.5, kMedianNoise = 0.44;
constexpr double kErrors = 3;             // standard errors by which factors differ that are alike
constexpr double kLeastFactor = 1.005;    // of a straggler; below, slack takes it up
constexpr double kLeastOutside = 0.02;    // of the fastest time: a delay that has to be seen
constexpr std::size_t kMostWatched = 16;  // pipelines with plans of their own: each takes a search
constexpr std::int64_t kPause = 20;       // iterations at all-max after a change, doubled each time
// Rescaling a profile costs some iterations at all-max.
constexpr std::int64_t kRescalingsWithin = 500;
constexpr std::size_t kMostRescalings = 4;
constexpr int kMostTurns = 2, kMostDoublings = 4, kMostFindings = 2;

bool differ(Seconds one, Seconds other, double by) {
  return std::abs(one / other - 1) > by;
}

bool differ(std::span<const double> some, std::span<const double> others, double by) {
  return !std::ranges::equal(some, others,
                             [by](double a, double b) { return std::abs(a / b - 1) < by; });
}

/// Factors that differ by no more than noise become their mean.
void level(std::vector<double>& factors, double noise) {
  const auto [least, most] = std::ranges::minmax(factors);
  if (most > least * (1 + noise)) return;
  const double sum = std::accumulate(factors.begin(), factors.end(), 0.0);
  std::ranges::fill(factors, sum / static_cast<double>(factors.size()));
}

std::vector<InstructionProfile> profile_entries(const Profile& profile) {
  return {profile.entries().begin(), profile.entries().end()};
}

std::string rounded(double factor) {
  return shortest(std::round(factor * 100) / 100);
}

}  // namespace

WatchedPipeline* Job::State::watched(int pipeline_number) {
  const auto found = std::ranges::find(watched_pipelines, pipeline_number,
                                       [](const auto& one) { return one.slow.pipeline; });
  return found == watched_pipelines.end() ? nullptr : &*found;
}

WatchedPipeline& Job::State::watch(int pipeline_number) {
  if (WatchedPipeline* known = watched(pipeline_number)) return *known;
  WatchedPipeline fresh;
  fresh.slow.pipeline = pipeline_number;
  fresh.slow.factors.assign(static_cast<std::size_t>(spec.shape.stages), 1.0);
  const auto place = std::ranges::lower_bound(watched_pipelines, pipeline_number, {},
                                              [](const auto& one) { return one.slow.pipeline; });
  return *watched_pipelines.insert(place, std::move(fresh));
}

/// Of each stage's computations, as far as that is known.
std::vector<double> Job::State::factors_of(int pipeline_number) const {
  std::vector<double> factors;
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    const std::size_t group = spec.shape.group(pipeline_number, stage);
    factors.push_back(detector.factor(group) == 1 ? 1 : detector.measured(group));
  }
  return factors;
}

bool Job::State::is_slow(int pipeline_number) const {
  for (int stage = 0; stage < spec.shape.stages; ++stage)
    if (detector.factor(spec.shape.group(pipeline_number, stage)) != 1) return true;
  return false;
}

/// Takes over what the pipeline's times say. \returns  whether that is something else than before
bool Job::State::measure(WatchedPipeline& one) {
  SlowPipeline& slow = one.slow;
  const double noise = detector.deviation();
  slow.error = kMedianNoise * noise;
  std::vector<double> factors = factors_of(slow.pipeline);
  level(factors, kSame + kErrors * slow.error);
  const Seconds fastest = times->at_all_max(factors);
  const bool changed =
      slow.fastest <= Seconds{0} ||
      differ(fastest, slow.fastest, std::max(kSame, kSameNoise * noise)) ||
      differ(factors, slow.factors, std::max(kSameFactor, kSameFactorNoise * noise));
  if (changed) {
    slow.own.reset();
    slow.factors = std::move(factors);
    slow.fastest = fastest;
  }
  if (one.declared > 1 && !one.outside_seen && plans) {
    const Seconds fastest_plan = plans->plans().front().time;
    if (one.declared_time <= Seconds{0}) one.declared_time = fastest_plan * one.declared;
    slow.outside = std::max(Seconds{0}, one.declared_time - slow.fastest);
    if (slow.settled && slow.outside < fastest_plan * kLeastOutside) slow.outside = {};
  }
  return changed;
}

/// Follows the pipelines that have costs of their own.
void Job::State::settle(const FinishedIteration& iteration) {
  for (const SlowWorker& worker : detector.workers()) {
    const bool room = watched_pipelines.size() < kMostWatched;
    if (watched(worker.pipeline) == nullptr && room) {
      measure(watch(worker.pipeline));
      findings.push_back({iteration.iteration, worker.stage, worker.pipeline});
      review_due = true;
    }
  }
  const auto healthy = [&](const WatchedPipeline& one) {
    return one.declared == 1 && !is_slow(one.slow.pipeline);
  };
  review_due = std::erase_if(watched_pipelines, healthy) > 0 || review_due;
  for (WatchedPipeline& one : watched_pipelines) {
    SlowPipeline& slow = one.slow;
    if (one.not_before > 0 && iteration.iteration >= one.not_before) {
      one.not_before = 0;
      review_due = true;
    }
    if (one.all_max_from >= 0) {
      settle_at_all_max(one, iteration.iteration);
      continue;
    }
    if (!slow.settled) continue;
    // Its costs are others than those it was planned with: what it can do is to be seen again.
    const double noise = std::max(kSameFactor, kSameFactorNoise * detector.deviation());
    if (!differ(factors_of(slow.pipeline), slow.factors, noise)) continue;
    slow.settled = false;
    measure(one);
    if (iteration.iteration - one.changed_at > kRescalingsWithin) one.changes = 0;
    one.changed_at = iteration.iteration;
    one.not_before = iteration.iteration + (kPause << std::min(one.changes++, kMostDoublings));
    review_due = true;
  }
}

/// At all-max, that tell what a pipeline can do.
int Job::State::iterations_to_settle() const {
  constexpr double kLittle = 0.004, kMuch = 0.012;
  const double noise = detector.deviation();
  return noise < kLittle ? 3 : noise < kMuch ? 6 : 8;
}

void Job::State::settle_at_all_max(WatchedPipeline& one, std::int64_t iteration) {
  SlowPipeline& slow = one.slow;
  if (iteration <= one.all_max_from) {
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

/// What the state of stages and pipelines asks for.
void Job::State::review(Seconds now) {
  if (probe) return;  // all hurry as it is
  if (review_stages(now) || measure_unsteady(now)) return;
  if (!std::exchange(review_due, false)) return;
  std::string why = "stragglers have healed";
  if (!detector.workers().empty()) {
    const SlowWorker& worst = detector.workers().front();
    why = "stage " + std::to_string(worst.stage) + " of pipeline " +
          std::to_string(worst.pipeline) + " takes " + rounded(worst.factor) +
          " times as long since iteration " + std::to_string(worst.since);
  } else if (!watched_pipelines.empty()) {
    why = "stragglers are as declared";
  }
  effects.save = true;
  if (!detector.workers().empty()) guard.forget_since(detector.workers().front().since);
  deploy_choice(now, why);
  ask_for_own_plans();
  if (const WatchedPipeline* one = unseen_outside()) {
    begin_probe(false, now,
                "whether pipeline " + std::to_string(one->slow.pipeline) +
                    " is as slow as declared is seen at all-max");
  }
}

/// Whether the GPU has been held below the clock asked for in most of the newest iterations.
bool Job::State::is_held(int pipeline_number, int stage) const {
  constexpr unsigned kNewest = 0xF;
  constexpr int kMost = 2;
  return std::popcount(held[spec.shape.group(pipeline_number, stage)] & kNewest) >= kMost;
}

/// \returns  whether something is done about stages
bool Job::State::review_stages(Seconds now) {
  const auto stages = static_cast<std::size_t>(spec.shape.stages);
  StageCosts costs{.time = std::vector(stages, 1.0),
                   .energy = std::vector(stages, 1.0),
                   .held = std::vector(stages, false)};
  std::string why;
  std::int64_t since = collector.newest();
  for (const SlowStage& slow : detector.stages()) {
    const std::deque<double>& ratios = energy_ratios[slow.stage];
    costs.time[slow.stage] = slow.factor;
    costs.energy[slow.stage] =
        ratios.empty() ? slow.factor : quantile(std::vector(ratios.begin(), ratios.end()), 0.5);
    costs.held[slow.stage] = slow.factor > 1 && is_held(0, slow.stage);
    since = std::min(since, slow.since);
    if (why.empty())
      why = "stage " + std::to_string(slow.stage) + " takes " + rounded(slow.factor) +
            " times as long on all pipelines";
  }
  if (detector.stages().empty() && collector.newest() >= energy_from) {
    for (const DriftWatch::Moved& moved : drift.moved()) {
      energy_from = collector.newest() + kRescalingsWithin;
      if (!(std::abs(moved.factor - 1) > kSame)) continue;
      costs.energy[moved.stage] = moved.factor;
      why = "stage " + std::to_string(moved.stage) + " uses " + rounded(moved.factor) +
            " times the energy";
    }
  }
  if (why.empty()) {
    if (!std::exchange(stages_from, std::nullopt)) return false;
    for (const int stage : stages_doubted) findings.push_back({collector.newest(), stage, {}});
    if (measure_unsteady(now)) return true;
    deploy_choice(now, "stages are as planned after all");
    return true;
  }
  guard.forget_since(since);
  if (!detector.stages().empty() && !settle_stages(now, why)) return true;
  stages_from.reset();
  if (may_rescale(costs, now, why)) rescale(costs, now, why);
  return true;
}

/// What stages take at all-max is what counts: they run at it at once, until it has been measured.
/// \returns  whether it has
bool Job::State::settle_stages(Seconds now, const std::string& why) {
  if (!stages_from) {
    if (deployments.back().purpose == StageOrders::Purpose::kPlan) {
      tell(Notice::Level::kInfo, now, why + ": all-max shows what it can do");
      deploy_full_speed();
    }
    stages_from = deployments.back().from;
    stages_doubted.clear();
    for (const SlowStage& slow : detector.stages()) stages_doubted.push_back(slow.stage);
  }
  const bool begins = collector.newest() <= *stages_from;
  const int needed = iterations_to_settle();
  int known = needed;
  for (const SlowStage& slow : detector.stages()) {
    for (int p = 0; p < spec.shape.data; ++p) {
      const std::size_t group = spec.shape.group(p, slow.stage);
      if (begins) detector.measure_anew(group);
      known = std::min(known, detector.known(group));
    }
  }
  // Where groups say nothing, waiting longer does not help.
  return known >= needed || collector.newest() > *stages_from + 3 * needed;
}

/// What is slow by its plan and well at all-max, again and again, has other costs at the clocks of
/// the plan than were measured. \returns  whether it is measured again
bool Job::State::measure_unsteady(Seconds now) {
  const std::int64_t newest = collector.newest();
  std::erase_if(findings, [&](const Finding& one) {
    return one.iteration > newest || one.iteration < newest - kRescalingsWithin;
  });
  const auto unsteady = std::ranges::find_if(findings, [&](const Finding& one) {
    return std::ranges::count_if(findings, [&](const Finding& other) {
             return other.stage == one.stage && other.pipeline == one.pipeline;
           }) > kMostFindings;
  });
  if (unsteady == findings.end()) return false;
  const int stage = unsteady->stage;
  const std::string why =
      "stage " + std::to_string(stage) + " is slow by its plan and not at all-max, again and again";
  findings.clear();
  if (may_profile()) {
    start_profiling({stage}, now, why);
  } else {
    roll_back(now, why);
  }
  return true;
}

/// What keeps moving is waited for at all-max; what is slower at some clocks and faster at others
/// is measured again.
bool Job::State::may_rescale(const StageCosts& costs, Seconds now, const std::string& why) {
  const std::int64_t newest = collector.newest();
  std::erase_if(rescalings, [&](const Rescaling& one) {
    return one.iteration > newest || one.iteration < newest - kRescalingsWithin;
  });
  std::vector<int> both_ways;
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    if (costs.time[stage] == 1) continue;
    rescalings.push_back({.iteration = newest, .stage = stage, .slower = costs.time[stage] > 1});
    int turns = 0;
    std::optional<bool> before;
    for (const Rescaling& one : rescalings) {
      if (one.stage != stage) continue;
      turns += before && *before != one.slower ? 1 : 0;
      before = one.slower;
    }
    if (turns > kMostTurns) both_ways.push_back(stage);
  }
  if (!both_ways.empty() && may_profile()) {
    rescalings.clear();
    start_profiling(both_ways, now, why);
    return false;
  }
  if (rescalings.size() <= kMostRescalings && both_ways.empty()) {
    holds = 0;
    return true;
  }
  rescalings.clear();
  hold(kPause << std::min(holds++, kMostDoublings), now, why + ", again and again");
  return false;
}

/// What instructions cost on GPUs that are held to a clock: none is faster than there. Of the
/// clocks above only the highest is left, so that it shows at once when they are let go.
InstructionProfile Job::State::held_costs(InstructionProfile entry, double factor) {
  const Megahertz highest = entry.points.back().clock;
  const Seconds shortest = entry.points.back().time * factor;
  std::erase_if(entry.points, [&](const OperatingPoint& point) { return point.time < shortest; });
  const Joules energy = entry.points.empty() ? Joules{0} : entry.points.back().energy;
  if (!entry.points.empty() && entry.points.back().clock == highest) return entry;
  entry.points.push_back({.clock = highest, .time = shortest, .energy = energy});
  return entry;
}

/// The profile with other costs: times and energies of all clocks alike, or of held GPUs.
Profile Job::State::with_costs(const StageCosts& costs) const {
  std::vector<InstructionProfile> entries = profile_entries(*profile);
  for (InstructionProfile& entry : entries) {
    if (is_fixed_time(entry.kind) || entry.points.empty()) continue;
    const double factor = costs.time[entry.stage];
    if (costs.held[entry.stage] && entry.points.front().time >= entry.points.back().time * factor) {
      entry = held_costs(std::move(entry), factor);
      continue;
    }
    for (OperatingPoint& point : entry.points) {
      point.time = point.time * factor;
      point.energy = point.energy * costs.energy[entry.stage];
    }
  }
  return profile->with_entries(std::move(entries));
}

/// The profile follows at once, and plans are made from it.
void Job::State::rescale(const StageCosts& costs, Seconds now, const std::string& why) {
  std::vector<InstructionProfile> entries = profile_entries(with_costs(costs));
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    if (costs.time[stage] == 1) continue;
    detector.rescale(stage, costs.time[stage]);
    const auto before = unheld.find(stage);
    if (costs.held[stage] && before == unheld.end()) {
      for (const InstructionProfile& entry : profile->entries())
        if (entry.stage == stage) unheld[stage].push_back(entry);
    } else if (costs.time[stage] < 1 && before != unheld.end()) {
      // Let go: costs are what they were.
      std::erase_if(entries, [&](const InstructionProfile& one) { return one.stage == stage; });
      std::ranges::move(before->second, std::back_inserter(entries));
      unheld.erase(before);
    }
  }
  // What explained it was another profile.
  baseline.forget();
  tell(Notice::Level::kInfo, now, why + ": other plans are made");
  request_plans(profile->with_entries(std::move(entries)), blocking_power, now);
}

// --- Plans for the costs of one pipeline --------------------------------------------------------

/// For one pipeline at a time, the slowest first.
void Job::State::ask_for_own_plans() {
  if (deployments.empty() || deployments.back().purpose != StageOrders::Purpose::kPlan) return;
  if (std::ranges::any_of(watched_pipelines, [](const auto& one) { return one.own_ticket != 0; }))
    return;
  const Seconds wait_until = deployments.back().choice.wait_until;
  WatchedPipeline* next = nullptr;
  for (WatchedPipeline& one : watched_pipelines) {
    const Seconds until = wait_until - one.slow.outside;
    const bool has = one.slow.own != nullptr && !differ(one.own_until, until, kSame);
    if (!one.slow.settled || is_uniform(one.slow) || has || one.own_failed) continue;
    if (next == nullptr || one.slow.least_time() > next->slow.least_time()) next = &one;
  }
  if (next == nullptr) return;
  next->own_until = wait_until - next->slow.outside;
  next->own_ticket = ++ticket;
  StageCosts costs{.time = next->slow.factors, .energy = next->slow.factors, .held = {}};
  for (int stage = 0; stage < spec.shape.stages; ++stage)
    costs.held.push_back(costs.time[stage] > 1 && is_held(next->slow.pipeline, stage));
  effects.own_plans = CharacterizeRequest{.ticket = ticket,
                                          .profile = with_costs(costs),
                                          .compare_with = profile,
                                          .blocking_power = blocking_power,
                                          .times = {next->own_until},
                                          .reserve = reserve};
}

void Job::State::take_own_plans(WatchedPipeline& one, Result<PlanTable> table, Seconds now) {
  one.own_ticket = 0;
  one.own_failed = !table || !fits(*table);
  // Of costs that are others by now.
  const bool current = one.slow.settled;
  if (!one.own_failed && current) {
    one.slow.own = std::make_shared<const PlanTable>(*std::move(table));
    if (probe) {
      review_due = true;
    } else {
      deploy_choice(now, "plans for pipeline " + std::to_string(one.slow.pipeline) + " are ready");
    }
  }
  ask_for_own_plans();
}

// --- Declared stragglers ------------------------------------------------------------------------

void Job::State::declare(const Straggler& straggler) {
  WatchedPipeline& one = watch(straggler.pipeline);
  one.declared = straggler.factor;
  one.declared_time = {};
  one.outside_seen = false;
  review_due = true;
  if (times) measure(one);
}

/// Healed, by the word of someone who knows. If it is not, its times will show.
void Job::State::withdraw(int pipeline_number) {
  std::erase_if(watched_pipelines,
                [&](const auto& one) { return one.slow.pipeline == pipeline_number; });
  for (int stage = 0; stage < spec.shape.stages; ++stage)
    detector.assume(spec.shape.group(pipeline_number, stage), 1);
}

/// As decisions take them.
std::vector<SlowPipeline> Job::State::slow_pipelines() const {
  std::vector<SlowPipeline> all;
  for (const WatchedPipeline& one : watched_pipelines) {
    all.push_back(one.slow);
    all.back().at_all_max = collector.newest() < one.not_before;
  }
  return all;
}

/// What is declared of a pipeline outweighs what was detected.
std::vector<Straggler> Job::State::all_stragglers() const {
  std::vector<Straggler> all = told;
  if (!times) return all;
  const Seconds usual = times->at_all_max();
  for (const WatchedPipeline& one : watched_pipelines) {
    const double factor = one.slow.fastest / usual;
    if (one.declared == 1 && factor > kLeastFactor)
      all.push_back(
          {.pipeline = one.slow.pipeline, .factor = factor, .until = {}, .detected = true});
  }
  return all;
}

}  // namespace harpe
