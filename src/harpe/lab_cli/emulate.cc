#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>

#include "harpe/base/file.h"
#include "harpe/base/statistics.h"
#include "harpe/base/text.h"
#include "harpe/command/option_file.h"
#include "harpe/command/quantity_text.h"
#include "harpe/emulation/cluster_emulation.h"
#include "harpe/emulation/power_limited.h"
#include "harpe/frontier/priced_parts.h"
#include "harpe/gpu_model/gpu_model.h"
#include "harpe/lab_cli/emulate_options.h"
#include "harpe/lab_cli/emulate_output.h"
#include "harpe/lab_cli/emulate_power.h"
#include "harpe/lab_cli/emulate_terms.h"
#include "harpe/lab_cli/lab_cli.h"
#include "harpe/lab_cli/pipeline_threads.h"
#include "harpe/plan_cli/job_doubts.h"
#include "harpe/plan_cli/late_replay.h"
#include "harpe/plan_cli/planning.h"
#include "harpe/plan_cli/rivals.h"
#include "harpe/plan_cli/table.h"
#include "harpe/policy/plan_choice.h"

namespace harpe {
namespace {

/// Above so many different waits for stragglers, plans are made at even distances instead.
constexpr std::size_t kMostWaits = 100;
constexpr int kPlansAlong = 100;
/// Emulations with other seeds, by which the result is judged.
constexpr int kOtherSeeds = 10;

/// Reads the job. Files and searches are left out, and a straggler or a power cap as objective is
/// refused.
Result<PlanJob> read_emulated_job(const EmulateArguments& arguments) {
  Result<PlanJob> read = read_job(arguments);
  if (!read.ok()) {
    Error error = read.error();
    if (arguments.job_file.ends_with(".toml")) {
      error.diagnostics.push_back(
          {.message = "a job file has the keys of harpe plan; options of the cluster stand in a "
                      "file of options: --config " +
                      arguments.job_file});
    }
    return error;
  }
  PlanJob job = std::move(*read);
  if (job.objective.is_straggler() || job.objective.kind == Objective::Kind::kPowerCap) {
    return Error::invalid("the job's objective is '" + text_of(job.objective) +
                          "', but an emulated cluster has stragglers and a power cap of its own: "
                          "take it out of the job, and give --straggler 20% or --power-cap WATTS "
                          "(of all GPUs)");
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

/// The plans of one pipeline, and what they were made from.
struct EmulatedJob {
  PlanInputs inputs;
  Frontier frontier;
  Planned planned;
  PlanTable table;
  double limit_slowdown = 1;  ///< factor of the iteration time at all-max under the power limit
};

/// Returns the times of all possible stragglers, for which the table should have plans.
Result<std::vector<Seconds>> waits_of(const Frontier& frontier, const Planned& planned,
                                      const EmulatedPipeline& pipeline, const PlanOptions& options,
                                      const EmulationTerms& terms) {
  std::vector<double> throttled;
  if (!possible_throttles(terms.stragglers).empty()) {
    const PlanTable shortest_table =
        HARPE_TRY(PlanTable::build(frontier, {.plans = 0, .plan = options}));
    throttled = HARPE_TRY(throttled_slowdowns(terms, pipeline, shortest_table.all_max()));
  }
  return waits_for(terms.stragglers, planned.fastest.iteration_time, planned.all_max.iteration_time,
                   throttled);
}

Result<Frontier> frontier_of(const PlanInputs& inputs, const PlanJob& job) {
  return characterize(inputs.pipeline, inputs.profile,
                      {.blocking_power = inputs.blocking_power,
                       .gpus_per_stage = job.gpus_per_stage,
                       .job = job.name});
}

/// Changes the profile to that of GPUs under the limit.
/// \returns  how much slower all-max becomes: a factor
Result<double> apply_power_limit(PlanInputs& inputs, const PlanJob& job, Watts limit) {
  for (const Watts waiting : inputs.blocking_power) {
    if (limit >= waiting) continue;
    return Error::invalid("a GPU cannot be limited to " + shortest(limit.value) + " W: it draws " +
                          shortest(waiting.value) + " W while it waits");
  }
  const auto all_max = [&]() -> Result<Seconds> {
    return HARPE_TRY(frontier_of(inputs, job)).all_max().iteration_time;
  };
  const Seconds usual = HARPE_TRY(all_max());
  inputs.profile = at_power_limit(inputs.profile, limit);
  return HARPE_TRY(all_max()) / usual;
}

EmulatedPipeline emulated_pipeline(const Frontier& frontier, const PlanInputs& inputs,
                                   const PlanJob& job) {
  return {frontier.pipeline(), frontier.profile(), inputs.blocking_power,
          options_of(job, frontier.profile()).switch_latency};
}

Result<EmulatedJob> plan_job(const PlanJob& job, const ClusterShape& shape,
                             const EmulationTerms& terms, std::optional<Watts> power_limit,
                             Console& console) {
  PlanInputs inputs = HARPE_TRY(read_inputs(job, console));
  HARPE_TRY(check_inputs(job, inputs, console));
  const double limit_slowdown =
      power_limit ? HARPE_TRY(apply_power_limit(inputs, job, *power_limit)) : 1;
  const Frontier frontier = HARPE_TRY(frontier_of(inputs, job));
  PlanJob of_pipeline = job;
  of_pipeline.objective = of_one_pipeline(job.objective, shape.overhead, shape.pipelines);
  HARPE_TRY(check_objective(of_pipeline, inputs, frontier, console));
  const EmulatedPipeline pipeline = emulated_pipeline(frontier, inputs, job);
  HARPE_TRY(check_throttles(terms, pipeline));
  LongPlanSearch search(job, console);
  ProgressBar bar(console, "plans");
  Planned planned = HARPE_TRY(make_plans(
      frontier, of_pipeline, 0, [&bar](double share) { bar.update(share / 4); }, search));
  planned.rivals = HARPE_TRY(rivals_of(frontier, planned, nullptr));
  PlanTable::Options options{.plans = 0,
                             .times = {},
                             .objective = of_pipeline.objective,
                             .plan = options_of(job, frontier.profile())};
  options.times = HARPE_TRY(waits_of(frontier, planned, pipeline, options.plan, terms));
  if (options.times.size() > kMostWaits || !terms.power_cap.caps.empty()) {
    options.plans = kPlansAlong;
    options.times.clear();
  }
  PlanTable table = HARPE_TRY(PlanTable::build(
      frontier, options, [&bar](double share) { bar.update(0.25 + 0.75 * share); }));
  return EmulatedJob{.inputs = std::move(inputs),
                     .frontier = frontier,
                     .planned = std::move(planned),
                     .table = std::move(table),
                     .limit_slowdown = limit_slowdown};
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
                                  std::span<const RecurringStraggler> recurring,
                                  const EmulationOutcome& outcome) {
  std::vector<std::string> notes = made.inputs.premises;
  if (!arguments.power_cap.empty()) {
    notes.emplace_back(
        "all-max is not under the power cap: it is faster and draws more than is allowed");
  }
  notes.insert(notes.end(), made.inputs.notes.begin(), made.inputs.notes.end());
  if (const std::string lateness = latency_sentence(job.switch_latency); !lateness.empty()) {
    notes.push_back(lateness);
  } else if (!job.states_latency) {
    notes.emplace_back(
        "clock changes are taken as free; --switch-latency 10ms emulates clocks that come late");
  }
  if (arguments.through_job && (!arguments.power_cap.empty() || arguments.checkpoint_every > 0)) {
    notes.emplace_back("--through-job knows no power cap, no checkpoints and no failures");
  }
  if (!arguments.gpu.empty()) {
    notes.push_back("blocking power " + shortest(made.inputs.blocking_power.front().value) +
                    " W, of " + arguments.gpu);
  }
  if (arguments.power_limit) {
    notes.push_back("the power limit of " + grouped(arguments.power_limit->value, 0) +
                    " W slows all-max by " + percent_text(100 * (made.limit_slowdown - 1), 2));
  }
  for (const RecurringStraggler& straggler : recurring) {
    const Seconds period = straggler.between + straggler.lasts;
    if (period <= outcome.harpe.time) continue;
    notes.push_back("a straggler comes every " + duration_text(period) +
                    ", which is longer than the training that was emulated");
  }
  return notes;
}

/// The rows of iterations.csv: each iteration under Harpe's policy.
class IterationTable {
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

  Result<EmulatedCluster> cluster(const ClusterShape& shape) const {
    return EmulatedCluster::make(shape, emulated_pipeline(made.frontier, made.inputs, job));
  }

  /// Returns the standard deviation of the saving between clusters with other seeds. Noise averages
  /// out over a training and is left out, which makes this fast.
  Result<double> deviation(ClusterShape shape, int seeds) const {
    shape.noise = 0;
    std::vector<double> savings;
    for (int i = 0; i < seeds; ++i) {
      ++shape.seed;
      EmulatedCluster other = HARPE_TRY(cluster(shape));
      const EmulationOutcome outcome = HARPE_TRY(emulate(other, plans, terms, {}));
      savings.push_back(outcome.saving(outcome.all_max));
    }
    return deviation_of(savings);
  }
};

constexpr const char* kPage = "emulation.html";
constexpr const char* kDocument = "emulation.json";
constexpr const char* kIterations = "iterations.csv";
constexpr const char* kPower = "power.csv";
constexpr const char* kPowerParquet = "power.parquet";
constexpr const char* kMetadata = "metadata.json";
constexpr const char* kPicture = "power.svg";
constexpr const char* kSpectrum = "spectrum.csv";

Status check_output(const EmulateArguments& arguments, const PlanJob& job) {
  if (arguments.out.empty()) return ok_status();
  HARPE_TRY(spare_inputs(
      arguments.out, job,
      {kPage, kDocument, kIterations, kPower, kPowerParquet, kMetadata, kPicture, kSpectrum}));
  return check_writable_directory(arguments.out);
}

/// Returns how much of the power is recorded if the command line does not say: three iterations,
/// and what a spectrum needs.
Seconds recorded_time(const EmulateArguments& arguments, const Planned& planned) {
  constexpr Seconds kLeast{180}, kMost{600};
  return arguments.power_time.value_or(
      std::clamp(3 * planned.all_max.iteration_time, kLeast, kMost));
}

/// The files that only `--out` needs.
struct EmulatedTables {
  std::string iterations, power;
  const char* power_name = kPower;
  std::string metadata = {};  ///< of the power; empty: none
};

/// Emulates the training, and others with other seeds.
Result<EmulatedTables> run_experiment(const Experiment& experiment,
                                      const EmulateArguments& arguments, const PageSource& source,
                                      EmulatedTrainingResult& result, Console& console) {
  PipelineThreads threads(static_cast<std::size_t>(arguments.jobs));
  ProgressBar bar(console, "iterations");
  EmulatedCluster cluster = HARPE_TRY(experiment.cluster(result.shape));
  EmulationHooks hooks{.workers = threads.workers(),
                       .progress = [&bar](double share) { bar.update(share); }};
  const bool writes = !arguments.out.empty();
  const Seconds length = writes ? recorded_time(arguments, experiment.made.planned) : Seconds{0};
  PowerRecorder harpe(cluster, {.length = length, .pipelines = arguments.power_pipelines});
  PowerRecorder all_max(cluster, {.length = length, .pipelines = 0});
  const bool is_catalogue = writes && arguments.power_format == PowerFormat::kCatalogue;
  if (is_catalogue) HARPE_TRY(check_catalogue_size(harpe));
  IterationTable iterations;
  if (writes) {
    hooks.power = {&harpe, &all_max};
    hooks.observe = [&](std::int64_t number, Seconds begin, const ClusterIteration& taken) {
      iterations.add(number, begin, taken);
    };
  }
  result.outcome = HARPE_TRY(emulate(cluster, experiment.plans, experiment.terms, hooks));
  result.other_seeds = kOtherSeeds;
  result.deviation = HARPE_TRY(experiment.deviation(result.shape, kOtherSeeds));
  if (!writes) return EmulatedTables{};
  keep_power(harpe, all_max, result);
  EmulatedTables tables{.iterations = iterations.take(), .power = {}};
  if (arguments.power_format == PowerFormat::kParquet) {
    tables.power = power_parquet(harpe, result);
    tables.power_name = kPowerParquet;
  } else {
    tables.power = is_catalogue ? power_catalogue(harpe, result) : power_table(harpe, result);
  }
  if (is_catalogue) tables.metadata = power_metadata(harpe, result, source);
  return tables;
}

Result<WrittenFiles> write_files(const EmulateArguments& arguments,
                                 const EmulatedTrainingResult& result, EmulatedTables tables,
                                 PageSource source) {
  if (arguments.out.empty()) return WrittenFiles{};
  source.documentation = "docs/lab.md, or harpe lab emulate --help.";
  std::vector<OutputFile> files = {{kPage, emulation_page(result, std::move(source))},
                                   {kDocument, emulation_json(result, {})},
                                   {kIterations, std::move(tables.iterations)},
                                   {tables.power_name, std::move(tables.power)},
                                   {kPicture, power_svg(result)},
                                   {kSpectrum, spectrum_csv(result)}};
  if (!tables.metadata.empty()) files.emplace_back(kMetadata, std::move(tables.metadata));
  return write_output_files(arguments.out, files, false);
}

/// Trains the same cluster with the decisions of a real job.
Result<JobTrainingResult> trained_through_job(const Experiment& experiment,
                                              const EmulateArguments& arguments,
                                              const ClusterShape& shape, Console& console) {
  constexpr std::int64_t kUsual = 500;
  const PlanInputs& inputs = experiment.made.inputs;
  ProgressBar bar(console, "job");
  JobTraining training{.spec = {},
                       .shape = shape,
                       .stragglers = experiment.terms.stragglers,
                       .iterations = arguments.iterations.value_or(kUsual),
                       .progress = [&bar](double share) { bar.update(share); }};
  JobSpec& spec = training.spec;
  spec.name = experiment.job.name;
  spec.shape = {.data = shape.pipelines, .stages = inputs.pipeline.schedule().stages, .tensor = 1};
  spec.schedule = inputs.pipeline.schedule();
  spec.transfers = inputs.pipeline.transfers();
  spec.blocking_power = PerStage<Watts>(inputs.blocking_power);
  spec.switch_latency = options_of(experiment.job, inputs.profile).switch_latency;
  spec.objective = experiment.job.objective;
  spec.profile = inputs.profile;
  return train_through_job(training);
}

Result<Outcome> run_emulate(const EmulateArguments& arguments, const Commands& commands,
                            Console& console) {
  HARPE_TRY(take_option_file(*arguments.command, arguments.config));
  const PlanJob job = HARPE_TRY(read_emulated_job(arguments));
  for (const std::string& sentence : job.warnings) console.warn(sentence);
  warn_of_small_shares(arguments, console);
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
  const EmulatedJob made = HARPE_TRY(plan_job(job, shape, terms, arguments.power_limit, console));
  const Plan& chosen = made.planned.chosen;
  result.title = job.name.empty() ? job.profile.stem().string() : job.name;
  result.subtitle = subtitle_of(chosen, job);
  result.is_synthetic = chosen.synthetic;
  result.stages = chosen.stages;
  result.tokens = arguments.tokens;
  if (job.gpu != nullptr) result.gpu = job.gpu->name;
  result.gpus = std::int64_t{chosen.stages} * shape.gpus_per_stage * shape.pipelines;
  Experiment experiment{.job = job,
                        .made = made,
                        .plans = {.table = made.table, .objective = job.objective},
                        .terms = terms};
  // No clock was searched for under a cap.
  const bool is_capped = !terms.power_cap.caps.empty();
  if (const ClusterCosts costs = cluster_costs(made.planned); costs.one_clock && !is_capped) {
    result.one_clock = costs.one_clock->clock;
    experiment.plans.rival = at_one_clock(made.table.all_max(), costs.one_clock->clock);
  }
  PageSource source = page_source(commands, arguments.job_file, made.frontier, job, made.planned);
  EmulatedTables tables = HARPE_TRY(run_experiment(experiment, arguments, source, result, console));
  if (arguments.through_job)
    result.through_job = HARPE_TRY(trained_through_job(experiment, arguments, shape, console));
  result.events = events_of(arguments, terms);
  result.notes = notes_of(made, job, arguments, terms.stragglers.recurring, result.outcome);
  const WrittenFiles done =
      HARPE_TRY(write_files(arguments, result, std::move(tables), std::move(source)));
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
      "harpe lab emulate --config cluster.toml\n"
      "harpe lab emulate job.toml --pipelines 256 --noise 1% --iterations 1000 --jobs 2",
      [arguments, &commands](Console& console) {
        return run_emulate(*arguments, commands, console);
      });
  arguments->command = &app;
  add_emulate_options(app, arguments);
}

}  // namespace harpe
