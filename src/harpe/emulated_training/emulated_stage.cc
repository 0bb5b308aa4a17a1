#include "harpe/emulated_training/emulated_stage.h"

#include <algorithm>
#include <cstddef>

#include "harpe/base/check.h"
#include "harpe/frontier/plan_from_clocks.h"

namespace harpe {
namespace {

OperatingPoint cost_at(std::span<const OperatingPoint> points, Megahertz clock, double slowness) {
  const std::optional<OperatingPoint> point = at_setting(points, {clock, {}});
  HARPE_CHECK(point, "the costs of a machine lack a computation of its schedule");
  return {point->clock, point->time * slowness, point->energy * slowness};
}

/// Puts in force what was asked for last among the clocks whose time has come.
void pass(GpuClock& gpu, Seconds time) {
  for (GpuClock::Pending& pending : gpu.pending) pending.left = pending.left - time;
  for (std::size_t i = gpu.pending.size(); i-- > 0;) {
    if (gpu.pending[i].left > Seconds{0}) continue;
    gpu.in_force = gpu.pending[i].clock;
    gpu.pending.erase(gpu.pending.begin(),
                      gpu.pending.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return;
  }
}

/// Runs an instruction at one clock after the other, as they come into force.
OperatingPoint run_at(std::span<const OperatingPoint> points, GpuClock& gpu, double slowness) {
  pass(gpu, Seconds{0});
  OperatingPoint cost = cost_at(points, gpu.in_force, slowness);
  if (gpu.pending.empty()) return cost;
  cost.time = Seconds{0};
  cost.energy = Joules{0};
  double left = 1;  // of the instruction
  while (true) {
    const OperatingPoint now = cost_at(points, gpu.in_force, slowness);
    const Seconds rest = now.time * left;
    const Seconds next = gpu.pending.empty()
                             ? rest
                             : std::ranges::min(gpu.pending, {}, &GpuClock::Pending::left).left;
    const bool changes = next < rest;
    const double share = changes ? next / now.time : left;
    cost.time += changes ? next : rest;
    cost.energy += now.energy * share;
    cost.clock = now.clock;
    pass(gpu, changes ? next : rest);
    if (!changes) return cost;
    left -= share;
  }
}

}  // namespace

StageRun run_stage(const Schedule& schedule, const Profile& costs, int stage,
                   std::span<const Megahertz> clocks, const StageConditions& conditions) {
  const auto& list = schedule.lists[static_cast<std::size_t>(stage)];
  HARPE_CHECK(clocks.size() == 1 || clocks.size() == list.size(),
              "an assignment has one clock, or one for each instruction");
  StageRun run;
  run.clock = conditions.clock;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (is_fixed_time(list[i].kind)) {
      const auto points = costs.points(stage, 0, list[i].kind);
      run.instructions.push_back(points.empty() ? OperatingPoint{} : points.front());
      continue;
    }
    const auto points = costs.points(stage, schedule.chunk(list[i].part), list[i].kind);
    Megahertz asked = clocks.size() == 1 ? clocks.front() : clocks[i];
    if (asked == Megahertz{0}) asked = run.clock.asked();
    const Megahertz clock = std::min(asked, conditions.cap.value_or(asked));
    if (clock != run.clock.asked()) run.clock.pending.push_back({clock, conditions.switch_latency});
    run.instructions.push_back(run_at(points, run.clock, conditions.slowness));
    run.throttled |= clock < asked;
  }
  return run;
}

std::vector<InstructionTotals> totals_of(const Schedule& schedule, int stage,
                                         std::span<const OperatingPoint> points) {
  const auto& list = schedule.lists[static_cast<std::size_t>(stage)];
  std::vector<InstructionTotals> all;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (is_fixed_time(list[i].kind)) continue;
    const int chunk = schedule.chunk(list[i].part);
    auto totals = std::ranges::find_if(all, [&](const InstructionTotals& one) {
      return one.kind == list[i].kind && one.chunk == chunk;
    });
    if (totals == all.end()) {
      totals = all.insert(all.end(), {.kind = list[i].kind, .chunk = chunk});
    }
    ++totals->count;
    totals->time += points[i].time;
    totals->energy += points[i].energy;
  }
  return all;
}

}  // namespace harpe
