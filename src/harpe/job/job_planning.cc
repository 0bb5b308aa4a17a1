#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/job/job_state.h"

namespace harpe {
namespace {

/// A profile without the clocks that GPUs do not have. Instructions of which nothing would be left
/// keep all.
Profile at_clocks(const Profile& profile, const RankBook& ranks) {
  std::vector<InstructionProfile> entries;
  for (InstructionProfile entry : profile.entries()) {
    const std::vector<Megahertz>& clocks = ranks.clocks(entry.stage);
    std::vector<OperatingPoint> kept;
    for (const OperatingPoint& point : entry.points) {
      if (point.clock == Megahertz{0} || std::ranges::find(clocks, point.clock) != clocks.end())
        kept.push_back(point);
    }
    if (!kept.empty()) entry.points = std::move(kept);
    entries.push_back(std::move(entry));
  }
  return Profile(std::move(entries), profile.has_chunks());
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
  request_plans(profiler->profile(), profiler->blocking_power());
}

void Job::State::request_plans(const Profile& from, std::vector<Watts> waiting) {
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
  request_plans(*spec.profile, std::vector(static_cast<std::size_t>(spec.shape.stages),
                                           spec.blocking_power.value_or(Watts{0})));
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
