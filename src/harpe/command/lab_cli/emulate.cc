#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/file.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/statistics.h"
#include "harpe/base/text.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/option_file.h"
#include "harpe/command/input/input_file.h"
#include "harpe/command/lab_cli/emulate_options.h"
#include "harpe/command/lab_cli/emulate_output.h"
#include "harpe/command/lab_cli/emulate_plans.h"
#include "harpe/command/lab_cli/lab_cli.h"
#include "harpe/command/lab_cli/pipeline_threads.h"
#include "harpe/command/plan_cli/late_replay.h"
#include "harpe/command/plan_cli/planning.h"
#include "harpe/device/gpu_model/gpu_model.h"
#include "harpe/lab/emulation/cluster_emulation.h"

namespace harpe::command {
namespace {

/// Fails if an option is given without the option that it needs.
Status check_pairs(const EmulateArguments& arguments) {
  Diagnostics diagnostics;
  if (arguments.checkpoint_time > Seconds{0} && arguments.checkpoint_every == 0)
    diagnostics.add("--checkpoint-time needs --checkpoint-every N");
  if (arguments.restart_time > Seconds{0} && arguments.failure_every == Seconds{0})
    diagnostics.add("--restart-time needs --failure-every TIME");
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

/// Returns text such as "A pipeline is 20 % slower for 1 d of every 3 d, another one each time".
std::string words_of(const lab::RecurringStraggler& one) {
  std::string text = one.pipeline ? "Pipeline " + std::to_string(*one.pipeline) : "A pipeline";
  text += one.held_to > Megahertz{0}
              ? " is limited to " + std::to_string(one.held_to.value) + " MHz by heat"
              : " is " + shortest(100 * (one.slowdown - 1), 1) + " % slower";
  if (one.between == Seconds{0}) return text + " all the time";
  text += one.is_random ? " for " + duration_text(one.lasts) + " at a time, " +
                              duration_text(one.between) + " apart on average"
                        : " for " + duration_text(one.lasts) + " of every " +
                              duration_text(one.between + one.lasts);
  return one.pipeline ? text : text + ", another one each time";
}

/// Warns of shares so small that a percent sign was most likely forgotten.
void warn_of_small_shares(const EmulateArguments& arguments, Console& console) {
  constexpr double kSuspicious = 2e-4;
  for (const auto& [option, share] : {std::pair("--noise", arguments.noise),
                                      std::pair("--power-spread", arguments.power_spread)}) {
    if (share > 0 && share < kSuspicious)
      console.warn(std::string(option) + " is in percent: " + shortest(100 * share, 6) + " %");
  }
}

/// Reads the terms, including their files.
Result<lab::EmulationTerms> read_terms(const EmulateArguments& arguments) {
  HARPE_TRY(check_pairs(arguments));
  lab::EmulationTerms terms{.stragglers = {.recurring = arguments.stragglers},
                            .straggler_file = arguments.straggler_trace,
                            .checkpoints = {arguments.checkpoint_every, arguments.checkpoint_time},
                            .failures = {arguments.failure_every, arguments.restart_time},
                            .reaction = arguments.reaction};
  std::vector<lab::RecurringStraggler>& recurring = terms.stragglers.recurring;
  recurring.insert(recurring.end(), arguments.throttles.begin(), arguments.throttles.end());
  if (const std::string& file = arguments.straggler_trace; !file.empty()) {
    const std::string text = HARPE_TRY(read_input_file(file));
    terms.stragglers.trace = HARPE_TRY(lab::parse_straggler_trace(text, file));
  }
  const std::string& cap = arguments.power_cap;
  if (cap.empty()) return terms;
  if (const Result<Watts> watts = parse_watts(cap); watts.ok()) {
    if (*watts <= Watts{0}) return Error::invalid("--power-cap: expected more than 0 W");
    terms.power_cap.caps = {{Seconds{0}, *watts}};
  } else {
    if (!std::filesystem::exists(cap))
      return Error::invalid("--power-cap: expected watts (300kW) or a CSV file, but the file " +
                            in_quotes(cap) + " does not exist");
    const std::string text = HARPE_TRY(read_input_file(cap));
    terms.power_cap = HARPE_TRY(lab::parse_power_cap_trace(text, cap));
  }
  return terms;
}

/// Returns sentences on the events of the cluster.
std::vector<std::string> events_of(const EmulateArguments& arguments,
                                   const lab::EmulationTerms& terms) {
  std::vector<std::string> events;
  for (const lab::RecurringStraggler& one : terms.stragglers.recurring)
    events.push_back(words_of(one));
  if (!arguments.straggler_trace.empty())
    events.push_back("Pipelines are slow as stated in " + arguments.straggler_trace);
  if (!events.empty()) {
    events.push_back("The others slow down after a pipeline was slow in " +
                     std::to_string(arguments.reaction) + " iterations");
  }
  if (!arguments.power_cap.empty())
    events.push_back("All GPUs together are capped: --power-cap " + arguments.power_cap);
  return events;
}

/// Number of emulations with other seeds, which show the uncertainty of the result.
constexpr int kOtherSeeds = 10;

lab::ClusterShape shape_of(const PlanJob& job, const EmulateArguments& arguments) {
  const carbon::ClusterTerms usual;
  return {.pipelines = job.cluster.pipelines.value_or(usual.pipelines),
          .gpus_per_stage = job.gpus_per_stage,
          .gpus_per_node = job.cluster.gpus_per_node.value_or(usual.gpus_per_node),
          .overhead = arguments.overhead,
          .noise = arguments.noise,
          .power_spread = arguments.power_spread,
          .seed = arguments.seed};
}

Watts highest_power(const Profile& profile) {
  Watts highest{0};
  for (const InstructionProfile& entry : profile.entries()) {
    if (entry.points.size() == 1) continue;  // fixed time
    for (const OperatingPoint& point : entry.points)
      highest = std::max(highest, point.energy / point.time);
  }
  return highest;
}

std::vector<std::string> notes_of(const EmulatedJob& made, const PlanJob& job,
                                  const EmulateArguments& arguments,
                                  const lab::EmulationTerms& terms,
                                  const lab::EmulationOutcome& outcome) {
  const std::vector<lab::PowerCapTrace::Cap>& caps = terms.power_cap.caps;
  std::vector<std::string> notes = made.inputs.premises;
  const auto lowest_cap = std::ranges::min_element(caps, {}, &lab::PowerCapTrace::Cap::power);
  if (lowest_cap != caps.end() && outcome.all_max.power() > lowest_cap->power) {
    notes.emplace_back(
        "all-max draws more than the power cap allows, so the saving against it is not only due "
        "to Harpe");
  }
  notes.insert(notes.end(), made.inputs.notes.begin(), made.inputs.notes.end());
  if (const std::string lateness = latency_sentence(job.switch_latency); !lateness.empty()) {
    notes.push_back(lateness);
  } else if (!job.states_latency) {
    notes.emplace_back(
        "clock changes are assumed to be immediate; --switch-latency 10ms emulates late changes");
  }
  if (arguments.through_job && (!arguments.power_cap.empty() || arguments.checkpoint_every > 0)) {
    notes.emplace_back("--through-job ignores the power cap, checkpoints and failures");
  }
  const Watts waiting = made.inputs.blocking_power.front();
  if (job.gpu != nullptr && waiting == job.gpu->blocking_power)
    notes.push_back("blocking power " + shortest(waiting.value) + " W, of " + arguments.gpu);
  if (arguments.power_limit) {
    notes.push_back("the power limit of " + grouped(arguments.power_limit->value, 0) +
                    " W slows all-max by " + percent_text(100 * (made.limit_slowdown - 1), 2));
    const Watts drawn = highest_power(made.inputs.profile);
    if (drawn > *arguments.power_limit) {
      notes.push_back(
          "the limit is exceeded: at the lowest clock of the profile, an instruction "
          "draws " +
          grouped(drawn.value, 1) + " W");
    }
  }
  for (const lab::RecurringStraggler& straggler : terms.stragglers.recurring) {
    const Seconds period = straggler.between + straggler.lasts;
    if (period <= outcome.harpe.time) continue;
    notes.push_back("a straggler occurs every " + duration_text(period) +
                    ", which is longer than the emulated training");
  }
  const lab::StragglerTrace& trace = terms.stragglers.trace;
  const double end =
      trace.in_seconds ? outcome.harpe.time.value : static_cast<double>(outcome.iterations);
  if (!trace.states.empty() &&
      std::ranges::all_of(trace.states, [&](const auto& state) { return state.begin >= end; })) {
    notes.push_back(terms.straggler_file + " begins after the end of the emulated training");
  }
  return notes;
}

/// The rows of iterations.csv: each iteration under Harpe's policy.
class IterationTable {
 public:
  void add(std::int64_t number, Seconds begin, const lab::ClusterIteration& iteration) {
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
  lab::EmulatedPlans plans;
  lab::EmulationTerms terms;

  Result<lab::EmulatedCluster> cluster(const lab::ClusterShape& shape) const {
    return lab::EmulatedCluster::make(shape, emulated_pipeline(made.frontier, made.inputs, job));
  }

  /// Returns the standard deviation of the saving between clusters with other seeds. Noise averages
  /// out over a training and is left out, which makes this fast.
  Result<double> deviation(lab::ClusterShape shape, int seeds) const {
    shape.noise = 0;
    std::vector<double> savings;
    for (int i = 0; i < seeds; ++i) {
      ++shape.seed;
      lab::EmulatedCluster other = HARPE_TRY(cluster(shape));
      const lab::EmulationOutcome outcome = HARPE_TRY(lab::emulate(other, plans, terms, {}));
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

/// Returns the time whose power is recorded: as given on the command line, or three iterations
/// within the limits of a spectrum.
Seconds recorded_time(const EmulateArguments& arguments, const Planned& planned) {
  constexpr Seconds kLeast{180}, kMost{600};
  return arguments.power_time.value_or(
      std::clamp(3 * planned.all_max.iteration_time, kLeast, kMost));
}

/// The files that only `--out` writes.
struct EmulatedTables {
  std::string iterations, power;
  const char* power_name = kPower;
  std::string metadata = {};  ///< of the power; empty if none
};

/// Emulates the training, and repeats it with other seeds.
Result<EmulatedTables> run_experiment(const Experiment& experiment,
                                      const EmulateArguments& arguments, const PageSource& source,
                                      EmulatedTrainingResult& result, Console& console) {
  PipelineThreads threads(static_cast<std::size_t>(arguments.jobs));
  ProgressBar bar(console, "iterations");
  lab::EmulatedCluster cluster = HARPE_TRY(experiment.cluster(result.shape));
  lab::EmulationHooks hooks{.workers = threads.workers(),
                            .progress = [&bar](double share) { bar.update(share); }};
  const bool writes = !arguments.out.empty();
  const Seconds length = writes ? recorded_time(arguments, experiment.made.planned) : Seconds{0};
  lab::PowerRecorder harpe(cluster, {.length = length, .pipelines = arguments.power_pipelines});
  lab::PowerRecorder all_max(cluster, {.length = length, .pipelines = 0});
  const bool is_catalogue = writes && arguments.power_format == PowerFormat::kCatalogue;
  if (is_catalogue) HARPE_TRY(check_catalogue_size(harpe));
  IterationTable iterations;
  if (writes) {
    hooks.power = {&harpe, &all_max};
    hooks.observe = [&](std::int64_t number, Seconds begin, const lab::ClusterIteration& taken) {
      iterations.add(number, begin, taken);
    };
  }
  result.outcome = HARPE_TRY(lab::emulate(cluster, experiment.plans, experiment.terms, hooks));
  result.other_seeds = kOtherSeeds;
  result.deviation = HARPE_TRY(experiment.deviation(result.shape, kOtherSeeds));
  if (!writes) return EmulatedTables{};
  keep_power(harpe, all_max, result);
  EmulatedTables tables{.iterations = iterations.take(), .power = {}};
  if (arguments.power_format == PowerFormat::kParquet) {
    tables.power = power_parquet(harpe, result);
    tables.power_name = kPowerParquet;
  } else {
    tables.power = is_catalogue ? power_catalogue(harpe, result)
                   : arguments.power_format == PowerFormat::kOpenG2g ? power_openg2g(result)
                                                                     : power_table(harpe, result);
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
  return write_output_files(arguments.out, files, {kPower, kPowerParquet, kMetadata});
}

/// Emulates the training on the same cluster by the decisions of a real job.
Result<JobTrainingResult> trained_through_job(const Experiment& experiment,
                                              const EmulateArguments& arguments,
                                              const lab::ClusterShape& shape, Console& console) {
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
  lab::EmulationTerms terms = HARPE_TRY(read_terms(arguments));
  const lab::ClusterShape shape = shape_of(job, arguments);
  HARPE_TRY(lab::check_stragglers(terms.stragglers, shape.pipelines, terms.straggler_file));
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
  result.one_clock = rival_clock(made, shape, terms);
  if (result.one_clock)
    experiment.plans.rival = lab::at_one_clock(made.table.all_max(), result.one_clock->clock);
  PageSource source = page_source(commands, arguments.job_file, made.frontier, job, made.planned);
  EmulatedTables tables = HARPE_TRY(run_experiment(experiment, arguments, source, result, console));
  if (arguments.through_job)
    result.through_job = HARPE_TRY(trained_through_job(experiment, arguments, shape, console));
  result.events = events_of(arguments, terms);
  result.notes = notes_of(made, job, arguments, terms, result.outcome);
  const WrittenFiles done =
      HARPE_TRY(write_files(arguments, result, std::move(tables), std::move(source)));
  for (const auto& [from, to] : done.kept_aside)
    console.warn(from + " is from an earlier run: it is kept as " + to);
  return Outcome{.text = emulation_text(result, done.written, console.colour_out),
                 .json = emulation_json(result, done.written)};
}

}  // namespace

void add_emulate_command(Commands& commands) {
  const auto arguments = std::make_shared<EmulateArguments>();
  CLI::App& app = commands.add(
      commands.root(), "emulate",
      "emulate the training of a cluster, and its savings\n"
      "Runs a training in simulated time, iteration by iteration, by Harpe's plans, at all-max, "
      "and at the best one clock for all GPUs: pipelines wait for the slowest pipeline, stragglers "
      "appear and disappear, GPUs differ. Reports kWh, and with --carbon and --price CO2 and "
      "money, for a month or --hours. The same options give identical output.",
      "harpe lab emulate --profile gpt3.csv --micro-batches 96 --gpu a100-sxm \\\n"
      "    --gpus-per-stage 8 --pipelines 16 --carbon DE --price '0.20 EUR/kWh' \\\n"
      "    --straggler 20%,every=3d,for=1d --out saved\n"
      "harpe lab emulate --config cluster.toml\n"
      "harpe lab emulate job.toml --pipelines 256 --noise 1% --iterations 1000 \\\n"
      "  --jobs 2",
      [arguments, &commands](Console& console) {
        return run_emulate(*arguments, commands, console);
      });
  arguments->command = &app;
  add_emulate_options(app, arguments);
}

}  // namespace harpe::command
