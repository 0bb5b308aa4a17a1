#include <algorithm>
#include <utility>

#include "harpe/lab/reproduce/sosp24.h"
#include "harpe/plan/baseline/perseus_frontier.h"
#include "harpe/plan/frontier/frontier.h"

namespace harpe::lab {
namespace {

/// Returns the profile with data loading as a part of each forward, which it directly precedes.
Profile with_load(const Profile& profile, std::span<const Seconds> load, Watts blocking_power) {
  std::vector<InstructionProfile> entries(profile.entries().begin(), profile.entries().end());
  for (InstructionProfile& entry : entries) {
    const auto stage = static_cast<std::size_t>(entry.stage);
    if (entry.kind != InstructionKind::kForward || stage >= load.size()) continue;
    for (OperatingPoint& point : entry.points) {
      point.time = point.time + load[stage];
      point.energy = point.energy + blocking_power * load[stage];
    }
  }
  return profile.with_entries(std::move(entries));
}

/// A pipeline on real GPUs: adds the part of an iteration that no plan covers.
struct MeasuredPipeline {
  const MeasuredWorkload& workload;

  Watts waiting_power() const {
    return workload.blocking_power * (workload.stages * workload.gpus_per_stage);
  }
  IterationFigures figures_of(const Plan& plan) const {
    const IterationFigures alone{plan.iteration_time, plan.iteration_energy};
    return waiting_until(alone, alone.time + workload.fixed_extra, waiting_power());
  }
  ReproducedRow row(const char* what, double straggler) const {
    ReproducedRow row{.what = what, .workload = workload.workload, .gpu = workload.gpu};
    row.gpus = workload.stages * workload.gpus_per_stage;
    row.micro_batches = workload.micro_batches;
    row.straggler = straggler;
    return row;
  }
};

/// The plans of an algorithm: all-max, the fastest, and the plan of a healthy pipeline that waits.
struct Ways {
  IterationFigures all_max, fastest;
  std::function<Result<IterationFigures>(Seconds end)> until;
};

Status fill(std::vector<ReproducedRow>& rows, const Ways& ways, Watts waiting_power,
            std::optional<double> ReproducedRow::* column) {
  for (ReproducedRow& row : rows) {
    if (row.what == "table3_saving_percent")
      row.*column = saving_percent(ways.fastest.energy, ways.all_max.energy);
    if (row.what == "table3_slowdown_percent")
      row.*column = 100 * (ways.fastest.time / ways.all_max.time - 1);
    if (row.what != "table4_saving_percent") continue;
    const Seconds end = ways.all_max.time * row.straggler;
    const IterationFigures plan = HARPE_TRY(ways.until(end));
    row.*column = saving_percent(waiting_until(plan, end, waiting_power).energy,
                                 waiting_until(ways.all_max, end, waiting_power).energy);
  }
  return ok_status();
}

/// Fills in the measured plans. The evaluation uses the last one for table 3, and the slowest one
/// that ends in time for table 4.
Status fill_published(std::vector<ReproducedRow>& rows, const MeasuredPipeline& pipeline) {
  const MeasuredWorkload& workload = pipeline.workload;
  if (!workload.all_max || workload.perseus.empty()) return ok_status();
  const auto until = [&](Seconds end) -> Result<IterationFigures> {
    IterationFigures slowest =
        *std::ranges::min_element(workload.perseus, {}, &IterationFigures::time);
    for (const IterationFigures& plan : workload.perseus)
      if (plan.time <= end && plan.time > slowest.time) slowest = plan;
    return slowest;
  };
  return fill(rows, {*workload.all_max, workload.perseus.back(), until}, pipeline.waiting_power(),
              &ReproducedRow::published);
}

Status fill_recomputed(std::vector<ReproducedRow>& rows, const MeasuredPipeline& pipeline,
                       const Frontier& frontier, std::optional<Seconds> unit) {
  // These profiles have only the clocks that a measured plan used, often two or three.
  plan::PerseusOptions options{.lines_through_few_points = true};
  if (unit) options.unit = *unit;
  const plan::PerseusFrontier found = HARPE_TRY(plan::PerseusFrontier::find(frontier, options));
  const Plan fastest = HARPE_TRY(found.plan(found.points().size() - 1));
  const auto until = [&](Seconds end) -> Result<IterationFigures> {
    return pipeline.figures_of(HARPE_TRY(found.plan_by(end - pipeline.workload.fixed_extra)));
  };
  return fill(rows, {pipeline.figures_of(frontier.all_max()), pipeline.figures_of(fastest), until},
              pipeline.waiting_power(), &ReproducedRow::recomputed);
}

Status fill_harpe(std::vector<ReproducedRow>& rows, const MeasuredPipeline& pipeline,
                  const Frontier& frontier) {
  const Plan all_max = frontier.all_max();
  const Plan fastest = HARPE_TRY(frontier.plan(all_max.iteration_time));
  const auto until = [&](Seconds end) -> Result<IterationFigures> {
    return pipeline.figures_of(
        HARPE_TRY(frontier.plan_for_straggler(end - pipeline.workload.fixed_extra)));
  };
  return fill(rows, {pipeline.figures_of(all_max), pipeline.figures_of(fastest), until},
              pipeline.waiting_power(), &ReproducedRow::harpe);
}

}  // namespace

Result<ReproducedRows> measured_rows(const MeasuredWorkload& workload,
                                     std::optional<Seconds> unit) {
  const MeasuredPipeline pipeline{workload};
  const Frontier frontier = HARPE_TRY(characterize(
      one_f_one_b({.stages = workload.stages, .micro_batches = workload.micro_batches}),
      with_load(workload.profile, workload.load, workload.blocking_power),
      {.blocking_power = workload.blocking_power, .gpus_per_stage = workload.gpus_per_stage}));
  ReproducedRows table;
  table.rows = {pipeline.row("table3_saving_percent", 1),
                pipeline.row("table3_slowdown_percent", 1)};
  for (const double straggler : kPublishedStragglers)
    table.rows.push_back(pipeline.row("table4_saving_percent", straggler));
  HARPE_TRY(fill_published(table.rows, pipeline));
  const Status recomputed = fill_recomputed(table.rows, pipeline, frontier, unit);
  if (!recomputed.ok())
    table.notes.push_back("Perseus's published algorithm: " + recomputed.error().text());
  HARPE_TRY(fill_harpe(table.rows, pipeline, frontier));
  return table;
}

}  // namespace harpe::lab
