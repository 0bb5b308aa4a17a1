#include <algorithm>
#include <vector>

#include "harpe/plan/frontier/brute_force_testing.h"
#include "harpe/plan/frontier/planned_work_testing.h"
#include "harpe/plan/frontier/work_graph_testing.h"

namespace harpe::plan {
namespace {

/// Returns the point of an entry; null if it was not measured.
const OperatingPoint* measured(std::span<const OperatingPoint> points,
                               const PlannedInstruction& entry) {
  const auto found = is_fixed_time(entry.kind)
                         ? points.begin()
                         : std::ranges::find(points, entry.setting(), &OperatingPoint::setting);
  return found == points.end() ? nullptr : &*found;
}

/// Sets time and energy of every entry. Returns false if an entry has no point.
bool set_points(Plan& plan, const Profile& profile) {
  for (int stage = 0; stage < plan.stages; ++stage) {
    auto& list = plan.instructions[stage];
    std::erase_if(list, [](const auto& entry) { return entry.kind == InstructionKind::kSwitch; });
    for (PlannedInstruction& entry : list) {
      const auto points = profile.points(stage, entry.chunk, entry.kind);
      if (is_fixed_time(entry.kind) && points.empty()) continue;  // as in the plan
      const OperatingPoint* const point = measured(points, entry);
      if (point == nullptr) return false;
      entry.time = point->time;
      entry.energy = point->energy;
    }
  }
  return true;
}

/// Inserts a `switch` with the cost of late settings before every entry that has such a cost.
void add_switches(Plan& plan, const Profile& profile, const LatencyByClock& latency) {
  for (int stage = 0; stage < plan.stages; ++stage) {
    auto& list = plan.instructions[stage];
    std::vector<LateRun> runs;
    for (const PlannedInstruction& entry : list) {
      if (is_fixed_time(entry.kind)) continue;
      const auto points = profile.points(stage, entry.chunk, entry.kind);
      runs.push_back({points, *measured(points, entry)});
    }
    const Watts power = plan.blocking_power[stage];
    const std::vector<LateCost> costs = late_costs(runs, power, latency);
    auto next = costs.begin();
    std::vector<PlannedInstruction> with_switches;
    bool continues = false;  // belongs to the same whole as the entry before
    for (const PlannedInstruction& entry : list) {
      if (!is_fixed_time(entry.kind)) {
        const LateCost cost = *next++;
        if (cost.time > 0 || cost.energy > 0) {
          const Seconds time{static_cast<double>(cost.time)};
          const Joules energy{static_cast<double>(cost.energy)};
          with_switches.push_back({.kind = InstructionKind::kSwitch,
                                   .fused_with_next = continues,
                                   .time = time,
                                   .energy = energy + power * time});
        }
      }
      continues = entry.fused_with_next;
      with_switches.push_back(entry);
    }
    list = std::move(with_switches);
  }
}

/// Sets every start as early as possible, and the iteration time. Returns false if the plan does
/// not run the schedule.
bool set_starts(Plan& plan, const Schedule& schedule, const Profile& profile, Seconds wait_until) {
  const PlannedWork work = planned_work(plan, schedule, profile);
  if (!work.mismatch.empty()) return false;
  const WorkGraph graph(work.schedule, plan.transfers);
  if (static_cast<int>(graph.order().size()) < graph.nodes()) return false;
  std::vector<Seconds> end(graph.nodes());
  plan.iteration_time = wait_until;
  for (const int node : graph.order()) {
    Seconds start{0};
    for (const WorkGraph::Edge& edge : graph.into(node))
      start = std::max(start, end[edge.from] + edge.lag);
    if (node >= graph.instructions()) {
      end[node] = start + graph.transfer_times()[node - graph.instructions()];
      continue;
    }
    for (const std::size_t e : work.runs[node].entries) {
      PlannedInstruction& entry = plan.instructions[work.runs[node].stage][e];
      entry.start = start;
      start += entry.time;
    }
    end[node] = start;
    plan.iteration_time = std::max(plan.iteration_time, start);
  }
  return true;
}

}  // namespace

bool recost(Plan& plan, const Schedule& schedule, const Profile& whole_stages,
            const LatencyByClock& latency, Seconds wait_until) {
  const Profile profile = rows_of_chunks(whole_stages, schedule);
  const auto stages = static_cast<std::size_t>(plan.stages);
  if (plan.instructions.size() != stages || plan.blocking_power.size() != stages) return false;
  if (!set_points(plan, profile)) return false;
  if (latency.longest() > Seconds{0}) add_switches(plan, profile, latency);
  if (!set_starts(plan, schedule, profile, wait_until)) return false;
  long double energy = 0;
  for (int stage = 0; stage < plan.stages; ++stage) {
    const long double power = plan.blocking_power[stage].value;
    energy += power * plan.iteration_time.value;
    for (const PlannedInstruction& entry : plan.instructions[stage])
      energy += entry.energy.value - power * entry.time.value;
  }
  plan.iteration_energy = Joules{static_cast<double>(plan.gpus_per_stage * energy)};
  return true;
}

}  // namespace harpe::plan
