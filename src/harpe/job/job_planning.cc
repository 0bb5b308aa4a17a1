#include <algorithm>
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

/// \param stages  to be measured; none: all
void Job::State::start_profiling(const std::vector<int>& stages, Seconds now,
                                 const std::string& why) {
  std::vector<std::vector<Megahertz>> clocks;
  for (int stage = 0; stage < spec.shape.stages; ++stage) clocks.push_back(ranks.clocks(stage));
  std::vector<std::vector<MeasuredClock>> known = measured;
  known.resize(static_cast<std::size_t>(spec.shape.stages));
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    const bool again = stages.empty() || std::ranges::find(stages, stage) != stages.end();
    if (again) known[stage].clear();
  }
  profiler.emplace(spec.shape, work, std::move(clocks), spec.profiling, spec.blocking_power,
                   std::move(known));
  phase = JobPhase::kProfiling;
  full_time = {};
  std::ranges::fill(full_energy, 0.0);
  detector.reset();
  drift.reset();
  std::string text = "profiling ";
  text += stages.empty() ? "all stages" : "stage " + std::to_string(stages.front());
  if (stages.size() > 1) text += " and " + std::to_string(stages.size() - 1) + " more";
  tell(Notice::Level::kInfo, now, text + ": " + why);
  deploy_profile();
}

void Job::State::request_plans(Profile from, std::vector<Watts> waiting) {
  phase = JobPhase::kCharacterizing;
  profile = std::move(from);
  blocking_power = std::move(waiting);
  // Plans that an interrupted profiler would have used are for nobody now.
  profiler.reset();
  effects.characterize = CharacterizeRequest{
      .ticket = ++ticket, .profile = *profile, .blocking_power = blocking_power};
  deploy_full_speed();
}

void Job::State::request_given_profile(Seconds now) {
  if (!spec.blocking_power) {
    tell(Notice::Level::kWarning, now,
         "the profile comes without a blocking power: 0 W is assumed, so plans for stragglers are "
         "faster than they could be");
  }
  request_plans(at_clocks(*spec.profile, ranks),
                std::vector(static_cast<std::size_t>(spec.shape.stages),
                            spec.blocking_power.value_or(Watts{0})));
}

void Job::State::take_plans(PlanTable table, Seconds now) {
  const auto& lists = spec.schedule.lists;
  const auto& clocks = table.all_max().clocks;
  bool fits = clocks.size() == lists.size();
  for (std::size_t stage = 0; fits && stage < lists.size(); ++stage)
    fits = clocks[stage].size() == lists[stage].size();
  phase = JobPhase::kRunning;
  if (!fits) {
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
