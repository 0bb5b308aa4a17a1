// Stages whose time or energy differs from the profile on all pipelines, and the responses to them.

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "harpe/base/statistics.h"
#include "harpe/base/text.h"
#include "harpe/training/job/job_state.h"

namespace harpe::training {
namespace {

constexpr double kSameEnergy = 0.005;  // relative; smaller changes are not worth a new plan
// Rescaling a profile costs some iterations at all-max.
constexpr std::size_t kMostRescalings = 4;
constexpr int kMostTurns = 2, kMostFindings = 2;

std::vector<InstructionProfile> profile_entries(const Profile& profile) {
  return {profile.entries().begin(), profile.entries().end()};
}

}  // namespace

/// Returns true if the GPU was below the requested clock in at least 2 of the newest 4 iterations.
bool Job::State::is_held(int pipeline_number, int stage) const {
  constexpr unsigned kNewest = 0xF;
  constexpr int kMost = 2;
  if (held.empty()) return false;
  return std::popcount(held[spec.shape.group(pipeline_number, stage)] & kNewest) >= kMost;
}

/// Returns true if a stage that is slow in the newest assignments may be as predicted at all-max:
/// they slow it down, and its GPU is not held.
bool Job::State::may_be_unsteady(int pipeline_number, int stage) const {
  if (deployments.back().purpose != StageAssignment::Purpose::kPlan) return false;
  const plan::TablePlan& plan = deployments.back().plan(pipeline_number);
  const bool has_knobs =
      !plan.knobs.empty() && !std::ranges::all_of(plan.knobs[stage], &Knobs::empty);
  const bool is_slowed = has_knobs || std::ranges::any_of(plan.clocks[stage], [&](Megahertz clock) {
                           return clock < highest_known[stage];
                         });
  return is_slowed && !is_held(pipeline_number, stage);
}

/// Returns the stages that differ from the profile; only the slower ones before `faster_from`.
std::vector<SlowStage> Job::State::stages_to_review() const {
  std::vector<SlowStage> stages(detector.stages().begin(), detector.stages().end());
  if (collector.newest() < faster_from)
    std::erase_if(stages, [](const SlowStage& one) { return one.factor < 1; });
  return stages;
}

/// Responds to stages that differ from the profile.
/// \returns  true if it responded
bool Job::State::review_stages(Seconds now) {
  const auto stages = static_cast<std::size_t>(spec.shape.stages);
  StageCosts costs{.time = std::vector(stages, 1.0),
                   .energy = std::vector(stages, 1.0),
                   .held = std::vector(stages, false)};
  std::string why;
  std::int64_t since = collector.newest();
  const std::vector<SlowStage> off = stages_to_review();
  for (const SlowStage& slow : off) {
    const std::deque<double>& ratios = energy_ratios[slow.stage];
    costs.time[slow.stage] = slow.factor;
    costs.energy[slow.stage] =
        ratios.empty() ? slow.factor : quantile(std::vector(ratios.begin(), ratios.end()), 0.5);
    costs.held[slow.stage] = slow.factor > 1 && is_held(0, slow.stage);
    since = std::min(since, slow.since);
    if (why.empty())
      why = "stage " + std::to_string(slow.stage) + " takes " + shortest(slow.factor, 2) +
            " times as long on all pipelines";
  }
  if (detector.stages().empty() && collector.newest() >= energy_from) {
    for (const DriftWatch::Moved& moved : drift.moved()) {
      energy_from = collector.newest() + kChangesWithin;
      if (!(std::abs(moved.factor - 1) > kSameEnergy)) continue;
      costs.energy[moved.stage] = moved.factor;
      why = "stage " + std::to_string(moved.stage) + " uses " + shortest(moved.factor, 2) +
            " times the energy";
    }
  }
  if (why.empty()) {
    if (settling() == nullptr) return false;
    for (const SlowStage& one : settling()->doubted) {
      findings.push_back({.iteration = collector.newest(),
                          .stage = one.stage,
                          .pipeline = {},
                          .faster = one.factor < 1});
    }
    end_settling();
    if (measure_unsteady(now)) return true;
    deploy_choice(now, "at all-max, stages take as long as in the profile");
    return true;
  }
  guard.forget_since(since);
  if (!off.empty() && !settle_stages(off, now, why)) return true;
  end_settling();
  if (note_rescaling(costs, now, why)) rescale(costs, now, why);
  return true;
}

/// Runs all stages at all-max until those in `off` have been measured there, because only their
/// times at all-max count.
/// \returns  true if they have been measured, or cannot be
bool Job::State::settle_stages(const std::vector<SlowStage>& off, Seconds now,
                               const std::string& why) {
  if (settling() == nullptr) {
    SettlingStages begun;
    for (const SlowStage& slow : off)
      if (may_be_unsteady(0, slow.stage)) begun.doubted.push_back(slow);
    if (deployments.back().purpose == StageAssignment::Purpose::kPlan) {
      add_event(JobEvent::Level::kInfo, now,
                why + ": all stages run at all-max for some iterations, to measure it there");
      deploy_all_max();
    }
    begun.from = newest_from();
    running()->look = std::move(begun);
  }
  const std::int64_t from = settling()->from;
  const bool begins = collector.newest() <= from;
  const int needed = iterations_to_settle();
  int known = needed;
  for (const SlowStage& slow : off) {
    for (int p = 0; p < spec.shape.data; ++p) {
      const std::size_t group = spec.shape.group(p, slow.stage);
      if (begins) detector.measure_anew(group);
      known = std::min(known, detector.known(group));
    }
  }
  // If groups do not report, waiting longer does not help.
  return known >= needed || collector.newest() > from + 3 * needed;
}

void Job::State::end_settling() {
  if (settling() != nullptr) running()->look = {};
}

/// Responds to a stage that is repeatedly slow, or faster, by its plan but not at all-max: unless
/// its GPU was held, its costs at the plan's clocks differ from the measured ones.
/// \returns  true if it is measured again, or all run at all-max because of it
bool Job::State::measure_unsteady(Seconds now) {
  const std::int64_t newest = collector.newest();
  std::erase_if(findings, [&](const Finding& one) {
    return one.iteration > newest || one.iteration < newest - kChangesWithin;
  });
  const auto unsteady = std::ranges::find_if(findings, [&](const Finding& one) {
    // A stage that is slow on all pipelines is slow on each.
    return std::ranges::count_if(findings, [&](const Finding& other) {
             return other.stage == one.stage && other.faster == one.faster &&
                    (!other.pipeline || !one.pipeline || other.pipeline == one.pipeline);
           }) > kMostFindings;
  });
  if (unsteady == findings.end()) return false;
  const int stage = unsteady->stage;
  const bool is_faster = unsteady->faster;
  const std::string where =
      unsteady->pipeline ? " of pipeline " + std::to_string(*unsteady->pipeline) : "";
  const std::string why = "stage " + std::to_string(stage) + where + " is repeatedly " +
                          (is_faster ? "faster" : "slower") + " than its plan, but not at all-max";
  findings.clear();
  if (may_profile()) {
    start_profiling({stage}, now, why);
    return true;
  }
  if (!is_faster) {
    const bool says_latency = spec.switch_latency.longest() > Seconds{0};
    roll_back(now,
              why +
                  (says_latency ? "; clocks may change later than switch_latency_s"
                                : "; clocks may change late, and the job has no switch_latency_s") +
                  " (harpe switch-latency --table measures it)");
    return true;
  }
  // A faster stage keeps the promise of the plan.
  faster_from = newest + kChangesWithin;
  add_event(JobEvent::Level::kInfo, now,
            why + ": not examined again before iteration " + std::to_string(faster_from));
  return false;
}

/// Notes a change of the profile. After repeated changes, all run at all-max for a while, or stages
/// that are slower at some clocks and faster at others are measured again.
/// \returns  true if the profile is to be changed
bool Job::State::note_rescaling(const StageCosts& costs, Seconds now, const std::string& why) {
  const std::int64_t newest = collector.newest();
  std::erase_if(rescalings, [&](const Rescaling& one) {
    return one.iteration > newest || one.iteration < newest - kChangesWithin;
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
  hold(pause_after(holds++), now, why + ", repeatedly");
  return false;
}

/// Returns the costs of an instruction on GPUs that are held to a clock: no clock is faster. Of the
/// higher clocks only the highest is kept, so that the end of the hold shows at once.
InstructionProfile Job::State::held_costs(InstructionProfile entry, double factor) {
  const InstructionSetting highest = all_max_point(entry.points).setting();
  const Seconds shortest = all_max_point(entry.points).time * factor;
  std::erase_if(entry.points, [&](const OperatingPoint& point) { return point.time < shortest; });
  const Joules energy = entry.points.empty() ? Joules{0} : entry.points.back().energy;
  if (find_point(entry.points, highest) != nullptr) return entry;
  entry.points.push_back(
      {.clock = highest.clock, .time = shortest, .energy = energy, .knobs = highest.knobs});
  return entry;
}

/// Returns the profile with other costs: of all clocks alike, or of held GPUs.
Profile Job::State::with_costs(const StageCosts& costs) const {
  std::vector<InstructionProfile> entries = profile_entries(*profile);
  for (InstructionProfile& entry : entries) {
    if (is_fixed_time(entry.kind) || entry.points.empty()) continue;
    const double factor = costs.time[entry.stage];
    if (costs.held[entry.stage] &&
        entry.points.front().time >= all_max_point(entry.points).time * factor) {
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

/// Applies new costs to the profile and requests plans from it.
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
      // Released: the former costs apply again.
      std::erase_if(entries, [&](const InstructionProfile& one) { return one.stage == stage; });
      std::ranges::move(before->second, std::back_inserter(entries));
      unheld.erase(before);
    }
  }
  refresh_factors();
  // The former profile explained the iterations at all-max.
  forget_all_max();
  add_event(JobEvent::Level::kInfo, now, why + ": new plans are computed");
  request_plans(profile->with_entries(std::move(entries)), blocking_power, now);
}

}  // namespace harpe::training
