#include "harpe/command/lab_cli/emulate_plans.h"

#include <algorithm>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/command/lab_cli/emulate_options.h"
#include "harpe/command/plan_cli/cluster.h"
#include "harpe/command/plan_cli/job_doubts.h"
#include "harpe/command/plan_cli/rivals.h"
#include "harpe/device/gpu_model/gpu_model.h"
#include "harpe/lab/emulation/throttled_pipelines.h"
#include "harpe/plan/baseline/at_objective.h"
#include "harpe/plan/policy/plan_choice.h"

namespace harpe::command {
namespace {

/// The most waits for stragglers that each have their own plan. If there are more, plans are at
/// even distances in time instead.
constexpr std::size_t kMostWaits = 100;
constexpr int kPlansAlong = 100;

/// Returns the times of all possible stragglers, for which the table should have plans.
Result<std::vector<Seconds>> waits_of(const Frontier& frontier, const Planned& planned,
                                      const lab::EmulatedPipeline& pipeline,
                                      const PlanOptions& options,
                                      const lab::EmulationTerms& terms) {
  std::vector<double> throttled;
  if (!lab::possible_throttles(terms.stragglers).empty()) {
    const plan::PlanTable shortest_table =
        HARPE_TRY(plan::PlanTable::build(frontier, {.plans = 0, .plan = options}));
    throttled = HARPE_TRY(lab::throttled_slowdowns(terms, pipeline, shortest_table.all_max()));
  }
  return lab::waits_for(terms.stragglers, planned.fastest.iteration_time,
                        planned.all_max.iteration_time, throttled);
}

Result<Frontier> frontier_of(const PlanInputs& inputs, const PlanJob& job) {
  return characterize(inputs.pipeline, inputs.profile,
                      {.blocking_power = inputs.blocking_power,
                       .gpus_per_stage = job.gpus_per_stage,
                       .job = job.name});
}

Status check_power_limit(const PlanInputs& inputs, Watts limit) {
  for (const Watts waiting : inputs.blocking_power) {
    if (limit >= waiting) continue;
    return Error::invalid("a GPU cannot be limited to " + shortest(limit.value) + " W: it draws " +
                          shortest(waiting.value) + " W while it waits");
  }
  return ok_status();
}

}  // namespace

Result<PlanJob> read_emulated_job(const EmulateArguments& arguments) {
  Result<PlanJob> read = read_job(arguments);
  if (!read.ok()) {
    Error error = read.error();
    if (arguments.job_file.ends_with(".toml")) {
      error.diagnostics.push_back(
          {.message = "a job file has the keys of harpe plan; options of the cluster belong in a "
                      "file of options: --config " +
                      arguments.job_file});
    }
    return error;
  }
  PlanJob job = std::move(*read);
  if (job.objective.is_straggler() || job.objective.is_cap()) {
    return Error::invalid("the job's objective is '" + text_of(job.objective) +
                          "', but an emulated cluster has its own stragglers and power cap: "
                          "remove it from the job, and give --straggler 20% or --power-cap WATTS "
                          "(of all GPUs)");
  }
  if (job.out) {
    return Error::invalid(
        "the job states where to write (out), but this command has its own --out: "
        "remove it from the job");
  }
  job.search_time = Seconds{0};
  job.search_windows.reset();
  job.certificate = false;
  if (!arguments.gpu.empty()) {
    job.gpu = find_gpu_model(arguments.gpu);
    if (job.gpu == nullptr) {
      return Error::invalid("--gpu: unknown GPU " + in_quotes(arguments.gpu) +
                            " (harpe synth --list shows the known GPUs)");
    }
  }
  if (job.blocking_power.empty() && job.gpu != nullptr) {
    job.blocking_power = {job.gpu->blocking_power};
  }
  return job;
}

std::optional<RivalClock> rival_clock(const EmulatedJob& made, const lab::ClusterShape& shape,
                                      const lab::EmulationTerms& terms) {
  const Planned& planned = made.planned;
  const auto clocks = std::ranges::find(planned.rivals, "one clock", &NamedRivals::name);
  if (clocks == planned.rivals.end() || terms.power_cap.caps.size() > 1) return std::nullopt;
  const lab::StragglerTerms& stragglers = terms.stragglers;
  const bool is_healthy = stragglers.recurring.empty() && stragglers.trace.states.empty();
  const std::string when = is_healthy ? "" : " without stragglers";
  const auto named = [&](const OneSettingPoint& point, const std::string& name) {
    return RivalClock{point.setting.clock, name + when};
  };
  if (!terms.power_cap.caps.empty()) {
    const Objective cap = plan::of_one_pipeline(
        {Objective::Kind::kPowerCap, terms.power_cap.caps.front().power.value}, shape.overhead,
        shape.pipelines);
    const Plan& chosen = planned.chosen;
    if ((chosen.iteration_energy / chosen.iteration_time).value > cap.value) {
      const auto under = plan::at_objective(clocks->curve, cap, planned.reference);
      if (!under || !under->meets_it) return std::nullopt;
      return named(under->point, "the fastest one clock for all GPUs under the power cap");
    }
  }
  if (!clocks->rivals.no_slower) return std::nullopt;
  return named(*clocks->rivals.no_slower, ClusterCosts::OneClock().name);
}

lab::EmulatedPipeline emulated_pipeline(const Frontier& frontier, const PlanInputs& inputs,
                                        const PlanJob& job) {
  return {frontier.pipeline(), frontier.profile(), inputs.blocking_power,
          options_of(job, frontier.profile()).switch_latency};
}

Result<EmulatedJob> plan_job(const PlanJob& job, const lab::ClusterShape& shape,
                             const lab::EmulationTerms& terms, std::optional<Watts> power_limit,
                             Console& console) {
  PlanInputs inputs = HARPE_TRY(read_inputs(job, console));
  HARPE_TRY(check_inputs(job, inputs, console));
  std::optional<Seconds> unlimited;
  if (power_limit) {
    HARPE_TRY(check_power_limit(inputs, *power_limit));
    unlimited = HARPE_TRY(frontier_of(inputs, job)).all_max().iteration_time;
    inputs.profile = lab::at_power_limit(inputs.profile, *power_limit);
  }
  const Frontier frontier = HARPE_TRY(frontier_of(inputs, job));
  PlanJob of_pipeline = job;
  of_pipeline.objective = plan::of_one_pipeline(job.objective, shape.overhead, shape.pipelines);
  HARPE_TRY(check_objective(of_pipeline, inputs, frontier, console));
  const lab::EmulatedPipeline pipeline = emulated_pipeline(frontier, inputs, job);
  HARPE_TRY(lab::check_throttles(terms, pipeline));
  LongPlanSearch search(job, console);
  ProgressBar bar(console, "plans");
  Planned planned = HARPE_TRY(make_plans(
      frontier, of_pipeline, 0, [&bar](double share) { bar.update(share / 4); }, search));
  planned.rivals = HARPE_TRY(rivals_of(frontier, planned, nullptr));
  plan::PlanTable::Options options{.plans = 0,
                                   .times = {},
                                   .objective = of_pipeline.objective,
                                   .plan = options_of(job, frontier.profile())};
  options.times = HARPE_TRY(waits_of(frontier, planned, pipeline, options.plan, terms));
  if (options.times.size() > kMostWaits || !terms.power_cap.caps.empty()) {
    options.plans = kPlansAlong;
    options.times.clear();
  }
  plan::PlanTable table = HARPE_TRY(plan::PlanTable::build(
      frontier, options, [&bar](double share) { bar.update(0.25 + 0.75 * share); }));
  return EmulatedJob{
      .inputs = std::move(inputs),
      .frontier = frontier,
      .planned = std::move(planned),
      .table = std::move(table),
      .limit_slowdown = unlimited ? frontier.all_max().iteration_time / *unlimited : 1};
}

}  // namespace harpe::command
