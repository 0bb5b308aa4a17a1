#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/job/job_state.h"

namespace harpe {
namespace {

/// What the GPUs of its stage have of an instruction's points.
std::vector<OperatingPoint> points_left(const InstructionProfile& entry, const RankBook& ranks) {
  if (is_fixed_time(entry.kind)) return entry.points;
  const std::vector<Megahertz>& clocks = ranks.clocks(entry.stage);
  std::vector<OperatingPoint> left;
  for (const OperatingPoint& point : entry.points) {
    if (point.clock == Megahertz{0} || std::ranges::find(clocks, point.clock) != clocks.end())
      left.push_back(point);
  }
  return left;
}

/// A profile without the clocks that GPUs do not have.
Profile at_clocks(const Profile& profile, const RankBook& ranks) {
  std::vector<InstructionProfile> entries;
  for (InstructionProfile entry : profile.entries()) {
    entry.points = points_left(entry, ranks);
    entries.push_back(std::move(entry));
  }
  return Profile(std::move(entries), profile.has_chunks());
}

Megahertz highest(const std::vector<OperatingPoint>& points) {
  return std::ranges::max(points, {}, &OperatingPoint::clock).clock;
}

}  // namespace

/// That the GPUs of each stage have.
std::vector<std::vector<Megahertz>> Job::State::clocks() const {
  std::vector<std::vector<Megahertz>> lists;
  for (int stage = 0; stage < spec.shape.stages; ++stage) lists.push_back(ranks.clocks(stage));
  return lists;
}

/// \param stages  to be measured; none: all
void Job::State::start_profiling(const std::vector<int>& stages, Seconds now,
                                 const std::string& why) {
  std::vector<std::vector<MeasuredClock>> known = measured;
  known.resize(static_cast<std::size_t>(spec.shape.stages));
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    const bool again = stages.empty() || std::ranges::find(stages, stage) != stages.end();
    if (again) known[stage].clear();
  }
  profiler.emplace(spec.shape, work, clocks(), spec.profiling, spec.blocking_power,
                   std::move(known));
  phase = JobPhase::kProfiling;
  plans_due = false;
  full_time = {};
  full_times = {};
  std::ranges::fill(full_energy, 0.0);
  detector.reset();
  drift.reset();
  std::string text = "profiling ";
  text += stages.empty() ? "all stages" : "stage " + std::to_string(stages.front());
  if (stages.size() > 1) text += " and " + std::to_string(stages.size() - 1) + " more";
  tell(Notice::Level::kInfo, now, text + ": " + why);
  deploy_profile();
}

void Job::State::resume_profiling(Seconds now, const std::string& why) {
  profiler.emplace(spec.shape, work, clocks(), spec.profiling, spec.blocking_power);
  profiler->restore(std::move(*interrupted));
  interrupted.reset();
  phase = JobPhase::kProfiling;
  if (profiler->done()) return end_profiling(now);
  tell(Notice::Level::kInfo, now, "profiling goes on where it was: " + why);
  deploy_profile();
}

void Job::State::end_profiling(Seconds now) {
  const double slowdown = std::max(0.0, profiler->progress(lead()).slowdown);
  tell(Notice::Level::kInfo, now,
       "profiling is done; it made training " + shortest(std::round(slowdown * 1000) / 10) +
           " % longer");
  measured = profiler->measured();
  last_profiling = std::max(std::int64_t{0}, collector.newest());
  request_plans(profiler->profile(), profiler->blocking_power(), now);
}

/// Stages with so few of the profile's clocks that nothing good can be planned from them: what is
/// left must be as fast as the GPUs, if more was measured; of a profile that was given, anything.
std::vector<int> Job::State::stages_to_measure(const Profile& known) const {
  std::vector<int> stages;
  for (const InstructionProfile& entry : known.entries()) {
    if (!stages.empty() && stages.back() == entry.stage) continue;
    const std::vector<OperatingPoint> left = points_left(entry, ranks);
    const bool is_measured = !measured.empty() && !measured[entry.stage].empty();
    if (left.empty() ||
        (is_measured &&
         highest(left) < std::min(highest(entry.points), ranks.clocks(entry.stage).front()))) {
      stages.push_back(entry.stage);
    }
  }
  return stages;
}

/// Whether the plans may use clocks that the GPUs do not have.
bool Job::State::loses_clocks() const {
  return profile && std::ranges::any_of(profile->entries(), [&](const auto& entry) {
           return points_left(entry, ranks).size() < entry.points.size();
         });
}

void Job::State::plan_anew(Seconds now) {
  tell(Notice::Level::kWarning, now,
       "GPUs do not have all clocks of the plans there were, so others are made");
  plans.reset();
  full_time = {};
  full_times = {};
  std::ranges::fill(full_energy, 0.0);
  request_plans(*profile, blocking_power, now);
}

/// The GPUs of a stage have fewer clocks in common than they had.
void Job::State::fit_to_clocks(Seconds now) {
  // Orders that hold until then are not sent to GPUs that lack their clocks.
  if (profiler) {
    deployments.clear();
    interrupted = profiler->kept();
    return resume_profiling(now, "GPUs have other clocks");
  }
  if (loses_clocks()) {
    deployments.clear();
    return plan_anew(now);
  }
  const Deployment& newest = deployments.back();
  if (newest.purpose == StageOrders::Purpose::kFullSpeed &&
      newest.stage_clocks != highest_clocks()) {
    deploy_full_speed();
  }
}

void Job::State::request_plans(const Profile& from, std::vector<Watts> waiting, Seconds now) {
  if (const std::vector<int> stages = stages_to_measure(from); !stages.empty()) {
    return start_profiling(measured.empty() ? std::vector<int>() : stages, now,
                           "GPUs of stage " + std::to_string(stages.front()) +
                               " do not have the clocks that are known of it");
  }
  phase = JobPhase::kCharacterizing;
  profile = at_clocks(from, ranks);
  blocking_power = std::move(waiting);
  profiler.reset();
  ask_for_plans();
  deploy_full_speed();
}

void Job::State::ask_for_plans() {
  plans_due = true;
  effects.characterize = CharacterizeRequest{
      .ticket = ++ticket, .profile = *profile, .blocking_power = blocking_power};
}

void Job::State::request_given_profile(Seconds now) {
  if (!spec.blocking_power) {
    tell(Notice::Level::kWarning, now,
         "the profile comes without a blocking power: 0 W is assumed, so plans for stragglers are "
         "faster than they could be");
  }
  request_plans(*spec.profile,
                std::vector(static_cast<std::size_t>(spec.shape.stages),
                            spec.blocking_power.value_or(Watts{0})),
                now);
}

/// Whether its plans have a clock for each instruction of the schedule.
bool Job::State::fits(const PlanTable& table) const {
  const auto& lists = spec.schedule.lists;
  const auto& of_stages = table.all_max().clocks;
  return std::ranges::equal(
      of_stages, lists, {}, [](const auto& list) { return list.size(); },
      [](const auto& list) { return list.size(); });
}

void Job::State::take_plans(PlanTable table, Seconds now) {
  phase = JobPhase::kRunning;
  if (!fits(table)) {
    plans_due = false;
    return tell(Notice::Level::kWarning, now,
                "the profile lacks an instruction that the schedule runs as one, so the plan has "
                "another list: training goes on at full clocks");
  }
  plans = std::make_shared<const PlanTable>(std::move(table));
  effects.plans = effects.save = true;
  overhead.reset();
  plan_iterations = 0;
  if (full_time > Seconds{0}) overhead = std::max(Seconds{0}, full_time - plans->all_max().time);
  rolled_back = false;
  detector.reset();
  if (Status possible = check_wish(*plans, wish, overhead.value_or(Seconds{0}), spec.shape.data);
      !possible) {
    tell(Notice::Level::kWarning, now, possible.error().text() + ": the nearest plan is used");
  }
  deploy_choice(now, std::to_string(plans->plans().size()) + " plans are ready");
}

/// Another table of the same profile, nowhere worse than the one there is.
void Job::State::improve_plans(PlanTable table, Seconds now) {
  if (!plans || !fits(table)) return;
  plans = std::make_shared<const PlanTable>(std::move(table));
  effects.plans = effects.save = true;
  deploy_choice(now, "better plans are ready");
}

/// How much longer a pipeline's iteration takes when one of its stages is `factor` times slower:
/// at its fastest plan, from the dependencies of its instructions.
double Job::State::pipeline_factor(int stage, double factor) const {
  if (!plans || !profile) return factor;
  const TablePlan& fastest = plans->plans().front();
  std::vector<Seconds> durations;
  for (const PipelineNode& node : pipeline.nodes()) {
    if (node.stage < 0) {
      durations.push_back(node.transfer_time);
      continue;
    }
    const Megahertz clock = fastest.clocks[node.stage][node.position];
    const auto points = profile->points(node.stage, node.chunk, node.instruction.kind);
    const auto point = std::ranges::find(points, clock, &OperatingPoint::clock);
    if (point == points.end()) return factor;
    durations.push_back(point->time);
  }
  const Seconds healthy = pipeline.earliest(durations).makespan;
  for (std::size_t i = 0; i < durations.size(); ++i) {
    const PipelineNode& node = pipeline.nodes()[i];
    if (node.stage == stage && !is_fixed_time(node.instruction.kind))
      durations[i] = durations[i] * factor;
  }
  return pipeline.earliest(durations).makespan / healthy;
}

}  // namespace harpe
