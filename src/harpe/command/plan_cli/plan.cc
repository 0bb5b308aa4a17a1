#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>

#include "harpe/base/file.h"
#include "harpe/command/command/kept_result.h"
#include "harpe/command/command/options.h"
#include "harpe/command/plan_cli/comparison.h"
#include "harpe/command/plan_cli/job_doubts.h"
#include "harpe/command/plan_cli/job_options.h"
#include "harpe/command/plan_cli/late_replay.h"
#include "harpe/command/plan_cli/plan_cli.h"
#include "harpe/command/plan_cli/plan_job.h"
#include "harpe/command/plan_cli/plan_output.h"
#include "harpe/command/plan_cli/planning.h"
#include "harpe/command/plan_cli/rivals.h"

namespace harpe::command {
namespace {

Result<KeptResult> write_files(const std::filesystem::path& out,
                               const std::vector<OutputFile>& files, WrittenFiles& done,
                               Console& console) {
  Result<KeptResult> kept = write_or_keep(out, [&](const std::filesystem::path& at) -> Status {
    done = HARPE_TRY(write_output_files(at, files, optional_plan_files()));
    return ok_status();
  });
  for (const auto& [from, to] : done.kept_aside) {
    console.warn(from + " belongs to an earlier plan: it is kept as " + to);
  }
  return kept;
}

/// Returns notes on the inputs, on the search, and on files that are left out.
std::vector<std::string> notes_on(const PlanInputs& inputs, const Frontier& frontier,
                                  const PlanJob& job, const Planned& planned) {
  std::vector<std::string> notes = inputs.notes;
  if (job.out) std::ranges::move(left_out(frontier, job), std::back_inserter(notes));
  if (planned.search) notes.push_back(sentence_of(*planned.search));
  if (job.out && planned.chosen.runs_in_parts()) {
    notes.emplace_back(
        "the plan splits instructions of the schedule, which a plan for Zeus cannot express: "
        "freqs_pipeline_00000.py is not written");
  }
  if (job.out && planned.chosen.has_knobs()) {
    notes.emplace_back(
        "the plan sets more than clocks, which a plan for Zeus cannot express: "
        "freqs_pipeline_00000.py is not written");
  }
  return notes;
}

struct PlanArguments : PlanJobArguments {
  bool compares = false;  ///< with published policies
};

Result<Outcome> run_plan(const PlanArguments& arguments, const Commands& commands,
                         Console& console) {
  PlanJob job = HARPE_TRY(read_job(arguments));
  for (const std::string& sentence : job.warnings) console.warn(sentence);
  const PlanInputs inputs = HARPE_TRY(read_inputs(job, console));
  HARPE_TRY(check_inputs(job, inputs, console));
  std::optional<carbon::ClusterTerms> cluster;
  if (job.cluster.given()) cluster = HARPE_TRY(cluster_terms(job.cluster));
  if (job.out) {
    HARPE_TRY(spare_inputs(*job.out, job, output_names(inputs.has_own_profile)));
    HARPE_TRY(check_writable_directory(*job.out));
  }

  CharacterizeOptions options{.blocking_power = inputs.blocking_power,
                              .gpus_per_stage = job.gpus_per_stage,
                              .job = job.name};
  Result<Frontier> frontier = Error::internal("not computed");
  {
    ProgressBar bar(console, "frontier");
    options.progress = [&bar](double fraction) { bar.update(fraction); };
    frontier = characterize(inputs.pipeline, inputs.profile, options);
  }
  if (!frontier.ok()) return std::move(frontier).error();
  HARPE_TRY(check_objective(job, inputs, *frontier, console));

  LongPlanSearch search(job, console);
  Result<Planned> planned = Error::internal("not computed");
  {
    ProgressBar bar(console, "plans");
    const auto progress = [&bar](double fraction) { bar.update(fraction); };
    planned = make_plans(*frontier, job, job.out ? job.points.value_or(plans_shown(*frontier)) : 0,
                         progress, search);
  }
  if (!planned.ok()) return std::move(planned).error();
  planned->premises = inputs.premises;
  planned->has_own_profile = inputs.has_own_profile;
  planned->cluster = std::move(cluster);
  planned->late_replay = replayed_late(*frontier, *planned);
  planned->rivals = HARPE_TRY(rivals_of(*frontier, *planned, job.gpu));
  std::vector<std::string> not_compared;
  if (arguments.compares) not_compared = add_published_rivals(job, *frontier, *planned);

  WrittenFiles done;
  std::optional<Result<KeptResult>> kept;
  if (job.out) {
    const std::vector<OutputFile> files = HARPE_TRY(
        make_output_files(*frontier, job, *planned,
                          page_source(commands, arguments.job_file, *frontier, job, *planned)));
    kept = write_files(*job.out, files, done, console);
  }
  std::vector<std::string> notes = notes_on(inputs, *frontier, job, *planned);
  std::ranges::move(not_compared, std::back_inserter(notes));
  Outcome outcome{
      .text = summary_text(*frontier, job, *planned, notes, done.written, console.colour_out),
      .json = summary_json(*frontier, job, *planned, notes, done.written)};
  if (kept) report_kept(*kept, console, outcome);
  return outcome;
}

}  // namespace

void add_plan_command(Commands& commands) {
  const auto arguments = std::make_shared<PlanArguments>();
  CLI::App& app = commands.add(
      commands.root(), "plan",
      "plan the clocks of one training iteration\n"
      "Computes the whole time-energy frontier of the pipeline exactly, and a plan on the "
      "frontier: a clock for every instruction, with a proven bound on the gap to the optimum. If "
      "the profile has columns for memory clocks, power limits or labels, the plan chooses these, "
      "too.\n"
      "With --out DIR, the command writes plan.json, frontier.json, freqs_pipeline_00000.py (for "
      "Zeus, if the plan sets only clocks), trace.json (for Perfetto), frontier.svg, pipeline.svg "
      "and report.html. With --fit, or if chunks share the rows of a stage, it also writes "
      "profile.csv, the profile that the plan uses. It writes all files or none.\n"
      "A job file in TOML has the same keys as the options, without the dashes. Options override "
      "the file. Paths in the file are relative to its folder.\n"
      "A number without a unit is in the unit of its option: s, W, %. Units of time are ns, us, "
      "ms, s, min; units of power are mW, W, kW, MW. 5% and 5 are the same.",
      "harpe plan --profile gpt3.csv --micro-batches 96 --blocking-power 83.64\n"
      "harpe plan --profile gpt3.csv --micro-batches 96 --blocking-power 83.64 \\\n"
      "    --slowdown 5% --certificate --out plan\n"
      "harpe plan --profile gpt3.csv --micro-batches 32 \\\n"
      "    --transfer-forward 3ms --transfer-backward 3ms --straggler 1.2x\n"
      "harpe plan --profile gpt3.csv --micro-batches 96 --blocking-power 83.64 \\\n"
      "    --gpus-per-stage 8 --pipelines 16 --price '0.10 EUR/kWh' --carbon DE\n"
      "harpe plan job.toml --deadline 16.5s",
      [arguments, &commands](Console& console) { return run_plan(*arguments, commands, console); });
  add_job_arguments(app, arguments, [](const JobKey&) { return true; });
  app.add_flag("--compare", arguments->compares,
               "Also compare with published policies: one clock per stage, EnvPipe, Perseus's "
               "algorithm (harpe compare shows their whole curves)");
}

}  // namespace harpe::command
