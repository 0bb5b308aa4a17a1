#include "harpe/training/emulated_training/emulated_stage.h"

#include <algorithm>
#include <cstddef>

#include "harpe/base/check.h"
#include "harpe/plan/frontier/at_setting.h"

namespace harpe::training {
namespace {

OperatingPoint cost_at(std::span<const OperatingPoint> points, Megahertz clock, double slowness) {
  const std::optional<OperatingPoint> point = plan::at_setting(points, {clock, {}});
  HARPE_CHECK(point, "the costs of a machine lack a computation of its schedule");
  return {point->clock, point->time * slowness, point->energy * slowness};
}

/// Runs an instruction at one clock after the other, as they come into force. The clock of the cost
/// is the one that it ends at.
OperatingPoint run_at(std::span<const OperatingPoint> points, GpuClock& gpu, double slowness) {
  Megahertz last{};
  const plan::InstructionCost cost = plan::run_instruction(gpu, [&](Megahertz clock) {
    const OperatingPoint at_clock = cost_at(points, clock, slowness);
    last = at_clock.clock;
    return plan::InstructionCost{at_clock.time, at_clock.energy};
  });
  return {last, cost.time, cost.energy};
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
    if (asked == Megahertz{0}) asked = run.clock.requested();
    const Megahertz clock = std::min(asked, conditions.cap.value_or(asked));
    run.clock.request(clock, conditions.switch_latency);
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

}  // namespace harpe::training
