#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "harpe/base/file.h"
#include "harpe/base/statistics.h"
#include "harpe/base/text.h"
#include "harpe/command/quantity_text.h"
#include "harpe/emulation/cluster_emulation.h"
#include "harpe/frontier/priced_parts.h"
#include "harpe/gpu_model/gpu_model.h"
#include "harpe/lab_cli/emulate_options.h"
#include "harpe/lab_cli/emulate_output.h"
#include "harpe/lab_cli/lab_cli.h"
#include "harpe/lab_cli/pipeline_threads.h"
#include "harpe/plan_cli/job_doubts.h"
#include "harpe/plan_cli/late_replay.h"
#include "harpe/plan_cli/planning.h"
#include "harpe/plan_cli/rivals.h"
#include "harpe/policy/plan_choice.h"

namespace harpe {
namespace {

/// Above so many different waits for stragglers, plans are made at even distances instead.
constexpr std::size_t kMostWaits = 100;
constexpr int kPlansAlong = 100;
/// Emulations with other seeds, by which the result is judged.
constexpr int kOtherSeeds = 10;

/// The job as `emulate` takes it: without files and searches, and one that no straggler or cap is
/// an objective of.
Result<PlanJob> read_emulated_job(const EmulateArguments& arguments) {
  PlanJob job = HARPE_TRY(read_job(arguments));
  if (job.objective.is_straggler() || job.objective.kind == Objective::Kind::kPowerCap) {
    return Error::invalid("the job's objective is '" + text_of(job.objective) +
                          "', but an emulated cluster has stragglers and a power cap of its own: "
                          "give --straggler 20% or --power-cap WATTS (of all GPUs)");
  }
  job.out.reset();
  job.search_time = Seconds{0};
  job.search_windows.reset();
  job.certificate = false;
  if (!arguments.gpu.empty()) {
    job.gpu = find_gpu_model(arguments.gpu);
    if (job.gpu == nullptr) {
      return Error::invalid("--gpu: unknown GPU " + in_quotes(arguments.gpu) +
                            " (harpe synth --list has those that are known)");
    }
  }
  if (job.blocking_power.empty() && job.gpu != nullptr) {
    job.blocking_power = {job.gpu->blocking_power};
  }
  return job;
}

Result<EmulationTerms> read_terms(const EmulateArguments& arguments) {
  EmulationTerms terms{.stragglers = {.recurring = arguments.stragglers},
                       .straggler_file = arguments.straggler_trace,
                       .checkpoints = {arguments.checkpoint_every, arguments.checkpoint_time},
                       .failures = {arguments.failure_every, arguments.restart_time},
                       .reaction = arguments.reaction};
  if (!arguments.straggler_trace.empty())
    terms.stragglers.trace = HARPE_TRY(read_straggler_trace(arguments.straggler_trace));
  if (arguments.power_cap.empty()) return terms;
  if (const Result<Watts> cap = parse_watts(arguments.power_cap); cap.ok()) {
    terms.power_cap.caps = {{Seconds{0}, *cap}};
  } else {
    terms.power_cap = HARPE_TRY(read_power_cap_trace(arguments.power_cap));
  }
  return terms;
}

/// The plans of one pipeline, and what they were made from.
struct EmulatedJob {
  PlanInputs inputs;
  Frontier frontier;
  Planned planned;
  PlanTable table;
};

Result<EmulatedJob> plan_job(const PlanJob& job, const ClusterShape& shape,
                             const EmulationTerms& terms, Console& console) {
  PlanInputs inputs = HARPE_TRY(read_inputs(job, console));
  HARPE_TRY(check_inputs(job, inputs, console));
  const Frontier frontier = HARPE_TRY(characterize(inputs.pipeline, inputs.profile,
                                                   {.blocking_power = inputs.blocking_power,
                                                    .gpus_per_stage = job.gpus_per_stage,
                                                    .job = job.name}));
  PlanJob of_pipeline = job;
  of_pipeline.objective = of_one_pipeline(job.objective, shape.overhead, shape.pipelines);
  HARPE_TRY(check_objective(of_pipeline, inputs, frontier, console));
  LongPlanSearch search(job, console);
  ProgressBar bar(console, "plans");
  Planned planned = HARPE_TRY(make_plans(
      frontier, of_pipeline, 0, [&bar](double share) { bar.update(share / 4); }, search));
  planned.rivals = HARPE_TRY(rivals_of(frontier, planned, nullptr));
  PlanTable::Options options{.plans = 0,
                             .times = waits_for(terms.stragglers, planned.fastest.iteration_time,
                                                planned.all_max.iteration_time),
                             .objective = of_pipeline.objective,
                             .plan = options_of(job, frontier.profile())};
  if (options.times.size() > kMostWaits || !terms.power_cap.caps.empty()) {
    options.plans = kPlansAlong;
    options.times.clear();
  }
  PlanTable table = HARPE_TRY(PlanTable::build(
      frontier, options, [&bar](double share) { bar.update(0.25 + 0.75 * share); }));
  return EmulatedJob{.inputs = std::move(inputs),
                     .frontier = frontier,
                     .planned = std::move(planned),
                     .table = std::move(table)};
}

ClusterShape shape_of(const PlanJob& job, const EmulateArguments& arguments) {
  const ClusterTerms usual;
  return {.pipelines = job.cluster.pipelines.value_or(usual.pipelines),
          .gpus_per_stage = job.gpus_per_stage,
          .gpus_per_node = job.cluster.gpus_per_node.value_or(usual.gpus_per_node),
          .overhead = arguments.overhead,
          .noise = arguments.noise,
          .power_spread = arguments.power_spread,
          .seed = arguments.seed};
}

std::vector<std::string> notes_of(const EmulatedJob& made, const PlanJob& job,
                                  const EmulateArguments& arguments,
                                  const EmulationOutcome& outcome) {
  std::vector<std::string> notes = made.inputs.premises;
  notes.insert(notes.end(), made.inputs.notes.begin(), made.inputs.notes.end());
  if (const std::string lateness = latency_sentence(job.switch_latency); !lateness.empty()) {
    notes.push_back(lateness);
  } else if (!job.states_latency) {
    notes.emplace_back(
        "clock changes are taken as free; --switch-latency 10ms emulates clocks that come late");
  }
  if (!arguments.gpu.empty()) {
    notes.push_back("blocking power " + shortest(made.inputs.blocking_power.front().value) +
                    " W, of " + arguments.gpu);
  }
  for (const RecurringStraggler& straggler : arguments.stragglers) {
    const Seconds period = straggler.between + straggler.lasts;
    if (period <= outcome.harpe.time) continue;
    notes.push_back("a straggler comes every " + duration_text(period) +
                    ", which is longer than the training that was emulated");
  }
  return notes;
}

/// The power of all GPUs in each iteration, as it is written to power.csv.
class PowerTable {
 public:
  void add(std::int64_t number, Seconds begin, const ClusterIteration& iteration) {
    text_ += std::to_string(number) + ',' + shortest(begin.value, 6) + ',' +
             shortest(iteration.time.value, 6) + ',' + shortest(iteration.energy.value, 3) + ',' +
             shortest((iteration.energy / iteration.time).value, 3) + '\n';
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_ = "iteration,begin_s,time_s,energy_j,power_w\n";
};

double deviation_of(const std::vector<double>& values) {
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) squares += square(value - mean);
  return std::sqrt(squares / (static_cast<double>(values.size()) - 1));
}

/// An emulation that is ready to run.
struct Experiment {
  const PlanJob& job;
  const EmulatedJob& made;
  EmulatedPlans plans;
  EmulationTerms terms;

  Result<EmulationOutcome> run(const ClusterShape& shape, const EmulationHooks& hooks) const {
    EmulatedPipeline pipeline(made.frontier.pipeline(), made.frontier.profile(),
                              made.inputs.blocking_power,
                              options_of(job, made.frontier.profile()).switch_latency);
    EmulatedCluster cluster = HARPE_TRY(EmulatedCluster::make(shape, std::move(pipeline)));
    return emulate(cluster, plans, terms, hooks);
  }

  /// Returns the standard deviation of the saving between clusters with other seeds. Without noise,
  /// which averages out over a training, and so in a moment.
  Result<double> deviation(ClusterShape shape, int seeds) const {
    shape.noise = 0;
    std::vector<double> savings;
    for (int i = 0; i < seeds; ++i) {
      ++shape.seed;
      const EmulationOutcome outcome = HARPE_TRY(run(shape, {}));
      savings.push_back(outcome.saving(outcome.all_max));
    }
    return deviation_of(savings);
  }
};

constexpr const char* kPage = "emulation.html";
constexpr const char* kDocument = "emulation.json";
constexpr const char* kPower = "power.csv";

Status check_output(const EmulateArguments& arguments, const PlanJob& job) {
  if (arguments.out.empty()) return ok_status();
  HARPE_TRY(spare_inputs(arguments.out, job, {kPage, kDocument, kPower}));
  return check_writable_directory(arguments.out);
}

/// Emulates the training and others with other seeds.
/// \param power  gets the power of each iteration; null: not needed
Status run_experiment(const Experiment& experiment, int jobs, PowerTable* power,
                      EmulatedTrainingResult& result, Console& console) {
  PipelineThreads threads(static_cast<std::size_t>(jobs));
  ProgressBar bar(console, "iterations");
  EmulationHooks hooks{.workers = threads.workers(),
                       .progress = [&bar](double share) { bar.update(share); }};
  if (power != nullptr) {
    hooks.observe = [power](std::int64_t number, Seconds begin, const ClusterIteration& taken) {
      power->add(number, begin, taken);
    };
  }
  result.outcome = HARPE_TRY(experiment.run(result.shape, hooks));
  result.other_seeds = kOtherSeeds;
  result.deviation = HARPE_TRY(experiment.deviation(result.shape, kOtherSeeds));
  return ok_status();
}

Result<Outcome> run_emulate(const EmulateArguments& arguments, const Commands& commands,
                            Console& console) {
  const PlanJob job = HARPE_TRY(read_emulated_job(arguments));
  for (const std::string& sentence : job.warnings) console.warn(sentence);
  EmulationTerms terms = HARPE_TRY(read_terms(arguments));
  const ClusterShape shape = shape_of(job, arguments);
  HARPE_TRY(check_stragglers(terms.stragglers, shape.pipelines, terms.straggler_file));
  HARPE_TRY(check_output(arguments, job));
  EmulatedTrainingResult result{.shape = shape, .cluster = HARPE_TRY(cluster_terms(job.cluster))};
  if (arguments.iterations) {
    terms.iterations = *arguments.iterations;
  } else {
    terms.time = result.cluster.time;
  }
  const EmulatedJob made = HARPE_TRY(plan_job(job, shape, terms, console));
  const Plan& chosen = made.planned.chosen;
  result.title = job.name.empty() ? job.profile.stem().string() : job.name;
  result.subtitle = subtitle_of(chosen, job);
  result.is_synthetic = chosen.synthetic;
  result.stages = chosen.stages;
  result.gpus = std::int64_t{chosen.stages} * shape.gpus_per_stage * shape.pipelines;
  Experiment experiment{.job = job,
                        .made = made,
                        .plans = {.table = made.table, .objective = job.objective},
                        .terms = terms};
  if (const ClusterCosts costs = cluster_costs(made.planned); costs.one_clock) {
    result.one_clock = costs.one_clock->clock;
    experiment.plans.rival = at_one_clock(made.table.all_max(), costs.one_clock->clock);
  }
  PowerTable power;
  const bool writes = !arguments.out.empty();
  HARPE_TRY(run_experiment(experiment, arguments.jobs, writes ? &power : nullptr, result, console));
  result.notes = notes_of(made, job, arguments, result.outcome);

  WrittenFiles done;
  if (writes) {
    PageSource source = page_source(commands, arguments.job_file, made.frontier, job, made.planned);
    source.documentation = "harpe lab emulate --help.";
    done = HARPE_TRY(write_output_files(arguments.out,
                                        {{kPage, emulation_page(result, std::move(source))},
                                         {kDocument, emulation_json(result, {})},
                                         {kPower, power.take()}},
                                        false));
  }
  return Outcome{.text = emulation_text(result, done.written, console.colour_out),
                 .json = emulation_json(result, done.written)};
}

}  // namespace

void add_emulate_command(Commands& commands) {
  const auto arguments = std::make_shared<EmulateArguments>();
  CLI::App& app = commands.add(
      commands.root(), "emulate",
      "emulate a cluster that trains, and what it would save\n"
      "Runs a training in simulated time, iteration by iteration, by Harpe's plans, at all-max, "
      "and "
      "at the best one clock for all GPUs: pipelines wait for the slowest of them, stragglers come "
      "and go, GPUs differ. Answers in kWh, and with --carbon and --price in CO2 and money, for a "
      "month or --hours. The same options give the same bytes.",
      "harpe lab emulate --profile gpt3.csv --micro-batches 96 --gpu a100-sxm \\\n"
      "    --gpus-per-stage 8 --pipelines 16 --carbon DE --price '0.20 EUR/kWh' \\\n"
      "    --straggler 20%,every=3d,for=1d --out saved\n"
      "harpe lab emulate job.toml --pipelines 256 --noise 1% --iterations 1000 --jobs 2",
      [arguments, &commands](Console& console) {
        return run_emulate(*arguments, commands, console);
      });
  add_emulate_options(app, arguments);
}

}  // namespace harpe
