#pragma once
/// \file
/// A small planned pipeline for the tests of this room.

#include <optional>
#include <utility>
#include <vector>

#include "harpe/lab/emulation/cluster_emulation.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/policy/plan_table.h"
#include "harpe/plan/profile/synth.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe::lab {

/// A pipeline of four stages, with plans for the waits that stragglers cause.
struct PlannedPipeline {
  static constexpr Watts kBlocking{83.64};
  static constexpr int kGpusPerStage = 8;

  explicit PlannedPipeline(LatencyByClock late = {}, const std::vector<double>& slowdowns = {},
                           std::optional<Objective> objective = {}, int plans = 0)
      : latency(std::move(late)),
        frontier(frontier_of()),
        table(table_of(slowdowns, objective, plans)) {}

  EmulatedPipeline emulated() const {
    return {frontier.pipeline(), frontier.profile(), std::vector<Watts>(4, kBlocking), latency};
  }
  EmulatedCluster cluster(ClusterShape shape) const {
    shape.gpus_per_stage = kGpusPerStage;
    return EmulatedCluster::make(shape, emulated()).value();
  }

  LatencyByClock latency;
  Frontier frontier;
  plan::PlanTable table;

 private:
  static Frontier frontier_of() {
    const auto schedule = one_f_one_b({.stages = 4, .micro_batches = 8});
    return characterize(schedule, synthesize({.stages = 4}).value(),
                        {.blocking_power = kBlocking, .gpus_per_stage = kGpusPerStage})
        .value();
  }
  plan::PlanTable table_of(const std::vector<double>& slowdowns, std::optional<Objective> objective,
                           int plans) const {
    plan::PlanTable::Options options{.plans = plans,
                                     .objective = objective,
                                     .plan = {.effort = Effort::kQuick, .switch_latency = latency}};
    StragglerTerms stragglers;
    for (const double slowdown : slowdowns) stragglers.recurring.push_back({.slowdown = slowdown});
    const Seconds fastest = frontier.fastest_plan(options.plan)->iteration_time;
    options.times = waits_for(stragglers, fastest, frontier.all_max(options.plan).iteration_time);
    return plan::PlanTable::build(frontier, options).value();
  }
};

}  // namespace harpe::lab
