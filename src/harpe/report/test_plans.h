#pragma once
/// \file
/// Plans for the tests of this room: 1F1B, simulated without the planner.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "harpe/base/source_tree_testing.h"
#include "harpe/report/report.h"

namespace harpe::report {

struct Cost {
  Seconds time;
  Joules energy;
};
/// (stage, kind, MHz) -> cost.
using CostOf = std::function<Cost(int, InstructionKind, int)>;
/// (stage, kind, micro-batch) -> MHz.
using ClockOf = std::function<int(int, InstructionKind, int)>;

struct TestPipeline {
  int stages = 4;
  int micro_batches = 6;
  int gpus_per_stage = 2;
  double blocking_power = 80;
  Transfers transfers = {};
  bool with_optimizer = false;
  CostOf cost = {};
};

/// An analytic model: time falls and power rises with the clock; later stages are a little slower;
/// a backward takes twice a forward.
inline Cost analytic_cost(int stage, InstructionKind kind, int clock) {
  const double weight = kind == InstructionKind::kBackward ? 2 : 1;
  const double seconds = weight * (0.02 + 0.0007 * stage) * (0.2 + 0.8 * 1400.0 / clock);
  const double watts = 110 + 290 * std::pow(clock / 1400.0, 2.5);
  return {{seconds}, {watts * seconds}};
}

/// Returns the lists of 1F1B, without clocks and times.
inline std::vector<std::vector<PlannedInstruction>> one_f_one_b_lists(
    const TestPipeline& pipeline) {
  std::vector<std::vector<PlannedInstruction>> lists(static_cast<std::size_t>(pipeline.stages));
  for (int stage = 0; stage < pipeline.stages; ++stage) {
    auto& list = lists[static_cast<std::size_t>(stage)];
    int forward = 0;
    const auto add = [&](InstructionKind kind, int micro_batch) {
      PlannedInstruction& instruction = list.emplace_back();
      instruction.kind = kind;
      instruction.micro_batch = micro_batch;
    };
    const int warm_up = std::min(pipeline.stages - 1 - stage, pipeline.micro_batches);
    while (forward < warm_up) add(InstructionKind::kForward, forward++);
    for (int backward = 0; backward < pipeline.micro_batches; ++backward) {
      if (forward < pipeline.micro_batches) add(InstructionKind::kForward, forward++);
      add(InstructionKind::kBackward, backward);
    }
    if (pipeline.with_optimizer) add(InstructionKind::kOptimizer, -1);
  }
  return lists;
}

/// Sets the earliest starts, by repeated passes over the lists until nothing changes. Overlapped
/// transfers delay the receiver, rendezvous transfers also the sender's next instruction.
inline void simulate(const TestPipeline& pipeline, Plan& plan) {
  std::map<std::tuple<InstructionKind, int, int>, PlannedInstruction*> at;
  for (int stage = 0; stage < plan.stages; ++stage) {
    for (auto& i : plan.instructions[static_cast<std::size_t>(stage)]) {
      at[{i.kind, stage, i.micro_batch}] = &i;
    }
  }
  const bool rendezvous = pipeline.transfers.mode == Transfers::Mode::kRendezvous;
  std::map<const PlannedInstruction*, Seconds> released;  // when a sender's stage may go on
  bool moved = true;
  while (moved) {
    moved = false;
    for (int stage = 0; stage < plan.stages; ++stage) {
      Seconds end{0};       // of the instruction before
      Seconds released_at;  // its transfers have ended
      for (auto& i : plan.instructions[static_cast<std::size_t>(stage)]) {
        Seconds start = std::max({end, released_at, i.start});
        const auto after = [&](InstructionKind kind, int other, Seconds delay) {
          const auto found = at.find({kind, other, i.micro_batch});
          if (found == at.end()) return;
          Seconds ready = found->second->start + found->second->time;
          if (rendezvous && delay > Seconds{0}) {
            ready = std::max(ready, end);
            Seconds& release = released[found->second];
            moved = moved || ready + delay > release;
            release = std::max(release, ready + delay);
          }
          start = std::max(start, ready + delay);
        };
        const auto lag = [&](const std::vector<Seconds>& times, int boundary) {
          const auto index = static_cast<std::size_t>(boundary);
          return index < times.size() ? times[index] : Seconds{0};
        };
        if (i.kind == InstructionKind::kForward && stage > 0) {
          after(i.kind, stage - 1, lag(pipeline.transfers.forward, stage - 1));
        }
        if (i.kind == InstructionKind::kBackward) {
          if (stage + 1 < plan.stages) {
            after(i.kind, stage + 1, lag(pipeline.transfers.backward, stage));
          } else {
            after(InstructionKind::kForward, stage, Seconds{0});
          }
        }
        if (start > i.start) {
          i.start = start;
          moved = true;
        }
        end = i.start + i.time;
        released_at = released.count(&i) != 0 ? released[&i] : end;
      }
    }
  }
}

inline Plan make_plan(const TestPipeline& pipeline, const ClockOf& clock_of) {
  Plan plan;
  plan.job = "test";
  plan.schedule = "1f1b";
  plan.stages = pipeline.stages;
  plan.micro_batches = pipeline.micro_batches;
  plan.gpus_per_stage = pipeline.gpus_per_stage;
  plan.transfers = pipeline.transfers;
  plan.instructions = one_f_one_b_lists(pipeline);
  plan.blocking_power.assign(static_cast<std::size_t>(pipeline.stages),
                             Watts{pipeline.blocking_power});
  for (int stage = 0; stage < pipeline.stages; ++stage) plan.placement.push_back(stage);
  const CostOf cost_of = pipeline.cost ? pipeline.cost : CostOf(analytic_cost);
  Joules effective{0};
  for (int stage = 0; stage < pipeline.stages; ++stage) {
    for (auto& i : plan.instructions[static_cast<std::size_t>(stage)]) {
      Cost cost{{0.011}, {1.7}};
      if (!is_fixed_time(i.kind)) {
        i.clock = {clock_of(stage, i.kind, i.micro_batch)};
        cost = cost_of(stage, i.kind, i.clock.value);
      }
      i.time = cost.time;
      i.energy = cost.energy;
      effective += cost.energy - Watts{pipeline.blocking_power} * cost.time;
    }
  }
  simulate(pipeline, plan);
  for (const auto& list : plan.instructions) {
    plan.iteration_time = std::max(plan.iteration_time, list.back().start + list.back().time);
  }
  plan.iteration_energy =
      pipeline.gpus_per_stage *
      (effective + Watts{pipeline.blocking_power} * plan.iteration_time * pipeline.stages);
  plan.lower_bound = 0.999 * plan.iteration_energy;
  return plan;
}

/// Returns a report of `count` plans between two clocks: slower plans at lower clocks, and in each
/// plan the first stages (which wait most) at the lowest.
inline ReportInput make_report(const TestPipeline& pipeline, int count) {
  ReportInput input{.title = "test job",
                    .subtitle = "analytic costs",
                    .all_max = make_plan(pipeline, [](int, InstructionKind, int) { return 1400; })};
  for (int i = 0; i < count; ++i) {
    const Plan plan = make_plan(pipeline, [&](int stage, InstructionKind, int micro_batch) {
      const int base = 1400 - 10 * i;
      return std::max(700, base - 30 * (pipeline.stages - 1 - stage) - 10 * (micro_batch % 3));
    });
    input.points.push_back({plan.iteration_time, plan.iteration_energy, plan.lower_bound, plan});
    input.bound.emplace_back(plan.iteration_time, plan.lower_bound);
  }
  return input;
}

/// Adds a bound for late settings to the plans, halfway between each plan and its lower bound.
inline void make_late(ReportInput& input) {
  for (ReportPoint& point : input.points) {
    point.tight_bound = point.lower_bound + 0.5 * (point.energy - point.lower_bound);
    input.late_bound.emplace_back(point.time, point.tight_bound);
  }
}

/// Returns the costs of the measured GPT-3 175B stages; nullopt if the machine lacks the file.
inline std::optional<CostOf> gpt3_costs() {
  std::ifstream file(measured_data() / "sosp24/emulation/gpt3-175b_a100-sxm.csv");
  if (!file) return std::nullopt;
  std::map<std::tuple<int, InstructionKind, int>, Cost> costs;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream cells(line);
    int stage = 0, clock = 0;
    std::string kind;
    Cost cost;
    cells >> stage >> kind >> clock >> cost.time.value >> cost.energy.value;
    costs[{stage, *instruction_kind(kind), clock}] = cost;
  }
  return [costs](int stage, InstructionKind kind, int clock) {
    return costs.at({stage, kind, clock});
  };
}

}  // namespace harpe::report
