#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "harpe/lab/reproduce/sosp24.h"
#include "harpe/plan/baseline/envpipe.h"
#include "harpe/plan/baseline/perseus_frontier.h"
#include "harpe/plan/frontier/frontier.h"

namespace harpe::lab {
namespace {

// Strong scaling: all pipelines together have `kGlobalBatch` micro-batches; each has 8 stages
// of 8 GPUs.
constexpr int kGlobalBatch = 1536, kStages = 8, kGpusOfStage = 8;
constexpr int kMicroBatches[] = {96, 48, 24, 12};

/// Constants of the emulation for a GPU.
struct PublishedGpu {
  std::string_view name;  ///< prefix of its name
  Watts blocking_power;
  /// Finer for the A40, whose published frontiers have 19 times as many points.
  Seconds unit;
};
constexpr PublishedGpu kPublishedGpus[] = {{"a100", Watts{83.64}, Seconds{1e-3}},
                                           {"a40", Watts{70.38}, Seconds{1e-4}}};

IterationFigures figures_of(const Plan& plan) {
  return {plan.iteration_time, plan.iteration_energy};
}

/// The plans that an algorithm finds for a pipeline.
struct Planned {
  IterationFigures all_max, fastest, least_energy;
  /// Returns the plan of a healthy pipeline that waits until `end` anyway.
  std::function<Result<IterationFigures>(Seconds end)> until;
};

/// Returns plans by the evaluation's rules: the baseline ends at the same time as the fastest plan.
/// \param points  slowest first
Planned published_rules(std::span<const IterationFigures> points, const IterationFigures& all_max,
                        Watts waiting_power) {
  const IterationFigures fastest = points.back();
  return {.all_max = waiting_until(all_max, fastest.time, waiting_power),
          .fastest = fastest,
          .least_energy = *std::ranges::min_element(points, {}, &IterationFigures::energy),
          .until = [points](Seconds end) -> Result<IterationFigures> {
            IterationFigures best = points.back();
            // Some published points end a rounding error after `end`.
            constexpr Seconds kRounding{1e-9};
            for (const IterationFigures& point : points)
              if (point.time <= end + kRounding && point.energy < best.energy) best = point;
            return best;
          }};
}

/// The rows of one pipeline, filled one column at a time.
class Rows {
 public:
  Rows(const EmulatedWorkload& workload, int micro_batches, Watts waiting_power)
      : pipelines_(kGlobalBatch / micro_batches), waiting_power_(waiting_power) {
    ReproducedRow row{.workload = workload.workload, .gpu = workload.gpu};
    row.gpus = pipelines_ * kStages * kGpusOfStage;
    row.micro_batches = micro_batches;
    const auto add = [&](const char* what, double straggler) {
      row.what = what;
      row.straggler = straggler;
      rows_.push_back(row);
    };
    add("intrinsic_saving_percent", 1);
    add("intrinsic_slowdown_percent", 1);
    for (const double straggler : kPublishedStragglers) add("job_saving_percent", straggler);
    add("least_energy_time_ratio", 1);
    add("envpipe_intrinsic_saving_percent", 1);
    for (const double straggler : kPublishedStragglers)
      add("envpipe_job_saving_percent", straggler);
  }

  using Column = std::optional<double> ReproducedRow::*;

  /// \param all_max_time  real time at all-max, whatever the baseline of the savings is
  Status fill(const Planned& planned, Seconds all_max_time, Column column) {
    for (ReproducedRow& row : rows_) {
      if (row.what == "intrinsic_slowdown_percent")
        row.*column = 100 * (planned.fastest.time / all_max_time - 1);
      if (row.what == "intrinsic_saving_percent")
        row.*column = saving_percent(planned.fastest.energy, planned.all_max.energy);
      if (row.what == "least_energy_time_ratio")
        row.*column = planned.least_energy.time / planned.fastest.time;
      if (row.what != "job_saving_percent") continue;
      const Seconds end = planned.all_max.time * row.straggler;
      const IterationFigures healthy = HARPE_TRY(planned.until(end));
      row.*column = job_saving(row.straggler, planned.all_max, planned.fastest, healthy);
    }
    return ok_status();
  }

  void fill_envpipe(const IterationFigures& plan, const IterationFigures& all_max, Column column) {
    for (ReproducedRow& row : rows_) {
      if (row.what == "envpipe_intrinsic_saving_percent")
        row.*column = saving_percent(plan.energy, all_max.energy);
      if (row.what == "envpipe_job_saving_percent")
        row.*column = job_saving(row.straggler, all_max, plan, plan);
    }
  }

  std::vector<ReproducedRow> take() {
    std::erase_if(rows_, [](const ReproducedRow& row) {
      return !row.published && !row.recomputed && !row.by_clocks && !row.harpe;
    });
    return std::move(rows_);
  }

 private:
  double job_saving(double straggler, const IterationFigures& all_max,
                    const IterationFigures& fastest, const IterationFigures& healthy) const {
    const StragglingJob job{
        .pipelines = pipelines_, .slowdown = straggler, .waiting_power = waiting_power_};
    const Seconds end = all_max.time * straggler;
    return saving_percent(job.energy(fastest, healthy, end), job.energy(all_max, all_max, end));
  }

  int pipelines_;
  Watts waiting_power_;
  std::vector<ReproducedRow> rows_;
};

Planned planned_by_clocks(const plan::PerseusFrontier& published, const IterationFigures& all_max,
                          const Plan& fastest, const Plan& least_energy) {
  return {.all_max = all_max,
          .fastest = figures_of(fastest),
          .least_energy = figures_of(least_energy),
          .until = [&published](Seconds end) -> Result<IterationFigures> {
            return figures_of(HARPE_TRY(published.plan_by(end)));
          }};
}

/// Fills in the columns of Perseus's published algorithm. Returns its baseline.
Result<IterationFigures> fill_recomputed(Rows& rows, const Frontier& frontier, Seconds unit,
                                         Watts waiting_power) {
  const IterationFigures all_max = figures_of(frontier.all_max());
  const plan::PerseusFrontier found =
      HARPE_TRY(plan::PerseusFrontier::find(frontier, {.unit = unit}));
  std::vector<IterationFigures> points;
  for (const plan::PerseusFrontier::Point& point : found.points())
    points.push_back({point.planned_time, point.planned_energy});
  const Planned planned = published_rules(points, all_max, waiting_power);
  HARPE_TRY(rows.fill(planned, all_max.time, &ReproducedRow::recomputed));
  const auto least = std::ranges::min_element(points, {}, &IterationFigures::energy);
  const Plan fastest = HARPE_TRY(found.plan(points.size() - 1));
  const Plan least_energy = HARPE_TRY(found.plan(static_cast<std::size_t>(least - points.begin())));
  HARPE_TRY(rows.fill(planned_by_clocks(found, all_max, fastest, least_energy), all_max.time,
                      &ReproducedRow::by_clocks));
  return planned.all_max;
}

Status fill_harpe(Rows& rows, const Frontier& frontier) {
  const IterationFigures all_max = figures_of(frontier.all_max());
  const Plan fastest = HARPE_TRY(frontier.plan(all_max.time));
  const Plan least_energy = HARPE_TRY(frontier.least_energy_plan());
  return rows.fill({.all_max = all_max,
                    .fastest = figures_of(fastest),
                    .least_energy = figures_of(least_energy),
                    .until = [&frontier](Seconds end) -> Result<IterationFigures> {
                      return figures_of(HARPE_TRY(frontier.plan_for_straggler(end)));
                    }},
                   all_max.time, &ReproducedRow::harpe);
}

}  // namespace

Result<ReproducedRows> emulated_rows(const EmulatedWorkload& workload, int micro_batches,
                                     Watts blocking_power, Seconds unit) {
  const Frontier frontier =
      HARPE_TRY(characterize(one_f_one_b({.stages = kStages, .micro_batches = micro_batches}),
                             workload.profile, {.blocking_power = blocking_power}));
  const Watts waiting_power = blocking_power * kStages;
  const IterationFigures all_max = figures_of(frontier.all_max());
  Rows rows(workload, micro_batches, waiting_power);
  if (const auto found = workload.published.find(micro_batches);
      found != workload.published.end()) {
    const EmulatedWorkload::Published& published = found->second;
    if (!published.frontier.empty()) {
      const Planned planned = published_rules(published.frontier, all_max, waiting_power);
      HARPE_TRY(rows.fill(planned, all_max.time, &ReproducedRow::published));
      if (published.envpipe)
        rows.fill_envpipe(*published.envpipe, planned.all_max, &ReproducedRow::published);
    }
  }
  ReproducedRows table;
  // Perseus's curves do not fit every profile; Harpe's plans need no curves.
  const Result<IterationFigures> baseline = fill_recomputed(rows, frontier, unit, waiting_power);
  if (!baseline.ok())
    table.notes.push_back("Perseus's published algorithm: " + baseline.error().text());
  const Result<Plan> envpipe = plan::envpipe_plan(frontier, plan::EnvPipeForm::kEmulated);
  if (!envpipe.ok()) table.notes.push_back("EnvPipe: " + envpipe.error().text());
  if (envpipe.ok() && baseline.ok())
    rows.fill_envpipe(figures_of(*envpipe), *baseline, &ReproducedRow::recomputed);
  if (envpipe.ok()) rows.fill_envpipe(figures_of(*envpipe), all_max, &ReproducedRow::by_clocks);
  HARPE_TRY(fill_harpe(rows, frontier));
  table.rows = rows.take();
  return table;
}

namespace {

/// Returns the mean time between published points, in whole microseconds; nullopt if there are
/// fewer than two.
std::optional<Seconds> published_unit(const EmulatedWorkload& workload, int micro_batches) {
  const auto published = workload.published.find(micro_batches);
  if (published == workload.published.end()) return std::nullopt;
  const std::vector<IterationFigures>& points = published->second.frontier;
  if (points.size() < 2) return std::nullopt;
  const Seconds length = points.front().time - points.back().time;
  const double micros = std::round(1e6 * length.value / static_cast<double>(points.size() - 1));
  return micros > 0 ? std::optional(Seconds{1e-6 * micros}) : std::nullopt;
}

}  // namespace

Result<std::vector<ReproducedTable>> tables_of(const Sosp24Artifact& artifact,
                                               const ReproduceOptions& options) {
  std::vector<ReproducedTable> tables;
  Diagnostics diagnostics;
  for (const EmulatedWorkload& workload : artifact.emulated) {
    const auto known = std::ranges::find_if(kPublishedGpus, [&](const PublishedGpu& gpu) {
      return workload.gpu.starts_with(gpu.name);
    });
    const bool is_known = known != std::end(kPublishedGpus);
    if (!is_known && !options.blocking_power) {
      diagnostics.add("the blocking power of " + workload.gpu +
                      " was not published: give --blocking-power WATTS");
      continue;
    }
    const Watts blocking = is_known ? known->blocking_power : *options.blocking_power;
    const Seconds usual_unit = is_known ? known->unit : Seconds{1e-3};
    for (const int micro_batches : kMicroBatches) {
      const Seconds unit =
          options.unit.value_or(published_unit(workload, micro_batches).value_or(usual_unit));
      tables.push_back({.name = workload.workload + " on " + workload.gpu + ", " +
                                std::to_string(micro_batches) + " micro-batches",
                        .compute = [&workload, micro_batches, blocking, unit] {
                          return emulated_rows(workload, micro_batches, blocking, unit);
                        }});
    }
  }
  for (const MeasuredWorkload& workload : artifact.measured) {
    tables.push_back(
        {.name = workload.workload + " measured on " + workload.gpu,
         .compute = [&workload, unit = options.unit] { return measured_rows(workload, unit); }});
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return tables;
}

}  // namespace harpe::lab
