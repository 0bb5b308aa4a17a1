#include "harpe/plan/policy/plan_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "harpe/plan/policy/plan_for.h"

namespace harpe::plan {
namespace {

/// Returns the end of the last instruction.
Seconds makespan(const Plan& plan) {
  Seconds end{0};
  for (const std::vector<PlannedInstruction>& stage : plan.instructions)
    for (const PlannedInstruction& instruction : stage)
      end = std::max(end, instruction.start + instruction.time);
  return end;
}

Watts waiting_power_of(const Plan& plan) {
  Watts sum{0};
  for (const Watts power : plan.blocking_power) sum += power;
  return sum * plan.gpus_per_stage;
}

TablePlan table_plan(const Plan& plan) {
  TablePlan result;
  result.time = makespan(plan);
  // More time only lowers the least effective energy, so the bound also holds without the wait.
  const Joules waiting = waiting_power_of(plan) * (plan.iteration_time - result.time);
  result.energy = plan.iteration_energy - waiting;
  const Joules bound = plan.lower_bound - waiting;
  if (bound > Joules{0}) result.gap = result.energy / bound - 1;
  const bool has_knobs = plan.has_knobs();
  for (const std::vector<PlannedInstruction>& stage : plan.instructions) {
    std::vector<Megahertz>& clocks = result.clocks.emplace_back();
    if (has_knobs) result.knobs.emplace_back();
    Seconds time{0};
    Joules energy{0};
    for (const PlannedInstruction& instruction : stage) {
      // A switch is not an instruction of the schedule: the plan's totals include its cost, its
      // lists do not.
      if (instruction.kind == InstructionKind::kSwitch) continue;
      clocks.push_back(instruction.clock);
      if (has_knobs) result.knobs.back().push_back(instruction.knobs);
      if (is_fixed_time(instruction.kind)) continue;
      time += instruction.time;
      energy += instruction.energy;
    }
    result.compute_time.push_back(time);
    result.compute_energy.push_back(energy);
  }
  return result;
}

}  // namespace

Result<PlanTable> PlanTable::build(const Frontier& frontier, const Options& options,
                                   const Progress& progress) {
  if (options.plans < 0) return Error::invalid("a plan table cannot have fewer than 0 plans");
  PlanTable table;
  PlanOptions usual = options.plan;
  usual.search_windows = 0;
  const Plan all_max = frontier.all_max(usual);
  table.all_max_ = table_plan(all_max);
  table.waiting_power_ = waiting_power_of(all_max);
  table.one_clock_ = frontier.one_setting();
  std::erase_if(table.one_clock_, [](const auto& point) { return !point.setting.knobs.empty(); });

  const Plan fastest = HARPE_TRY(frontier.fastest_plan(usual));
  std::vector<TablePlan> found{table_plan(fastest)};
  const bool along = options.plans > 0 || !options.times.empty();
  if (along) {
    const Result<Plan> least = frontier.least_energy_plan(usual);
    if (least.ok()) found.push_back(table_plan(*least));
  }
  const Seconds first = found.front().time;
  const Seconds last = std::max(first, frontier.max_time());
  std::vector<Seconds> times = options.times;
  if (times.empty()) {
    for (int i = 1; i <= options.plans; ++i)
      times.push_back(first + (last - first) * (static_cast<double>(i) / options.plans));
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (options.wanted && !options.wanted())
      return Error::of(ErrorCode::kUnavailable, "the plans are no longer needed");
    if (progress) progress(static_cast<double>(i) / static_cast<double>(times.size()));
    // Late clocks can rule out times next to the shortest; the table then has one plan less.
    if (const Result<Plan> plan = frontier.plan_for_straggler(times[i], usual); plan.ok())
      found.push_back(table_plan(*plan));
  }

  if (options.objective) {
    table.objective_ = options.objective;
    const ReferenceTimes reference = reference_times(frontier, fastest, all_max, usual);
    if (const auto plan = plan_for(frontier, *options.objective, reference, options.plan);
        plan.ok()) {
      found.push_back(table_plan(*plan));
      found.back().for_objective = true;
    }
  }
  table.take(std::move(found));
  if (progress) progress(1);
  return table;
}

PlanTable PlanTable::merged(const PlanTable& one, const PlanTable& other) {
  PlanTable table = one;
  if (table.one_clock_.empty()) table.one_clock_ = other.one_clock_;
  std::vector<TablePlan> found = std::exchange(table.plans_, {});
  if (other.objective_) {
    std::erase_if(found, [](const TablePlan& plan) { return plan.for_objective; });
    table.objective_ = other.objective_;
  }
  found.insert(found.end(), other.plans_.begin(), other.plans_.end());
  table.take(std::move(found));
  return table;
}

void PlanTable::take(std::vector<TablePlan> found) {
  const auto effective = [&](const TablePlan& plan) {
    return plan.energy - waiting_power_ * plan.time;
  };
  const auto key = [&](const TablePlan& plan) {
    return std::tuple<Seconds, bool, Joules, const std::vector<std::vector<Megahertz>>&,
                      const std::vector<std::vector<Knobs>>&>(
        plan.time, !plan.for_objective, effective(plan), plan.clocks, plan.knobs);
  };
  std::sort(found.begin(), found.end(),
            [&](const TablePlan& a, const TablePlan& b) { return key(a) < key(b); });
  Joules least{std::numeric_limits<double>::infinity()};
  for (TablePlan& plan : found) {
    if (!plan.for_objective && effective(plan) >= least) continue;
    if (!plans_.empty() && plans_.back().time == plan.time) continue;
    least = std::min(least, effective(plan));
    plans_.push_back(std::move(plan));
  }
  index();
}

void PlanTable::index() {
  best_.clear();
  std::size_t best = 0;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    if (plans_[i].energy < plans_[best].energy) best = i;
    best_.push_back(best);
  }
}

void PlanTable::recount(const Schedule& schedule, const Profile& profile) {
  const auto recounted = [&](TablePlan& plan) {
    for (std::size_t stage = 0; stage < plan.clocks.size(); ++stage) {
      plan.compute_time[stage] = {};
      plan.compute_energy[stage] = {};
      for (std::size_t i = 0; i < plan.clocks[stage].size(); ++i) {
        const Instruction& instruction = schedule.lists[stage][i];
        if (is_fixed_time(instruction.kind)) continue;
        const auto points = profile.points(static_cast<int>(stage),
                                           schedule.chunk(instruction.part), instruction.kind);
        const OperatingPoint* const point = find_point(points, plan.setting(stage, i));
        if (point == nullptr) continue;
        plan.compute_time[stage] += point->time;
        plan.compute_energy[stage] += point->energy;
      }
    }
  };
  recounted(all_max_);
  for (TablePlan& plan : plans_) recounted(plan);
}

double objective_gain(const PlanTable& known, const PlanTable& found) {
  const auto one = known.for_objective(), other = found.for_objective();
  if (!one || !other || known.objective() != found.objective()) return 0;
  const TablePlan &before = known.plans()[*one], &after = found.plans()[*other];
  Joules less = before.energy - after.energy;
  if (known.objective()->is_straggler()) less -= known.waiting_power() * (before.time - after.time);
  return less / before.energy;
}

std::optional<std::size_t> PlanTable::for_objective() const {
  const auto found = std::ranges::find(plans_, true, &TablePlan::for_objective);
  if (found == plans_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - plans_.begin());
}

std::size_t PlanTable::for_waiting_until(Seconds wait_until) const {
  const auto after =
      std::upper_bound(plans_.begin(), plans_.end(), wait_until,
                       [](Seconds time, const TablePlan& plan) { return time < plan.time; });
  return after == plans_.begin() ? 0 : static_cast<std::size_t>(after - plans_.begin()) - 1;
}

std::size_t PlanTable::for_deadline(Seconds deadline) const {
  return best_[for_waiting_until(deadline)];
}

std::size_t PlanTable::for_power_cap(Watts cap) const {
  // Energy is the effective energy plus a constant power, and effective energy falls with time, so
  // average power falls too.
  const auto found = std::partition_point(plans_.begin(), plans_.end(), [&](const TablePlan& plan) {
    return plan.energy / plan.time > cap;
  });
  return found == plans_.end() ? plans_.size() - 1
                               : static_cast<std::size_t>(found - plans_.begin());
}

}  // namespace harpe::plan
