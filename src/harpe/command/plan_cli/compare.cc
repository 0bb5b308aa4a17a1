#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <system_error>
#include <utility>

#include "harpe/base/file.h"
#include "harpe/base/text.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/plan_cli/comparison.h"
#include "harpe/command/plan_cli/comparison_output.h"
#include "harpe/command/plan_cli/given_profile.h"
#include "harpe/command/plan_cli/job_doubts.h"
#include "harpe/command/plan_cli/job_options.h"
#include "harpe/command/plan_cli/plan_cli.h"
#include "harpe/command/plan_cli/plan_output.h"
#include "harpe/command/plan_cli/rivals.h"
#include "harpe/plan/frontier/priced_parts.h"

namespace harpe {
namespace {

constexpr int kPointsOfCurve = 24;

struct CompareArguments : PlanJobArguments {
  std::string schedules = "all", policies = "all";
};

/// What is compared of each kind, in the order asked for.
struct Compared {
  std::vector<std::string> schedules, policies;
};

/// "one_clock" is "one clock".
std::string plain(const std::string& word) {
  std::string name = lower(trim(word));
  std::ranges::replace(name, '_', '-');
  std::ranges::replace(name, ' ', '-');
  return name;
}

/// Returns the names in a list that are known, each once, all of them for "all" and none for
/// "none". Names of files are taken as they are, if `is_file` is given.
Result<std::vector<std::string>> chosen_of(
    const std::string& list, const std::string& option, const std::vector<std::string>& known,
    const std::string& what, const std::function<bool(const std::string&)>& is_file = {}) {
  if (lower(list) == "all") return known;
  if (lower(list) == "none") return std::vector<std::string>{};
  std::vector<std::string> chosen;
  Diagnostics diagnostics;
  for (const std::string& word : split_list(list)) {
    const auto meant = std::ranges::find(known, plain(word), plain);
    if (meant == known.end() && !(is_file && is_file(word))) {
      const auto near = nearest(lower(word), known);
      diagnostics.add(option + ": unknown " + what + ' ' + in_quotes(word) +
                      (near ? "; is '" + *near + "' meant?" : "") + " (known: " + joined(known) +
                      ")");
      continue;
    }
    const std::string name = meant == known.end() ? word : *meant;
    if (std::ranges::find(chosen, name) == chosen.end()) chosen.push_back(name);
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return chosen;
}

/// Names of generators, or files as `--schedule` takes them.
Result<std::vector<std::string>> schedules_of(const std::string& list) {
  std::vector<std::string> known;
  for (const ScheduleGenerator& generator : schedule_generators())
    known.emplace_back(generator.name);
  return chosen_of(list, "--schedules", known, "schedule", [](const std::string& word) {
    std::error_code no_file;
    return word.find_first_of("./") != std::string::npos ||
           std::filesystem::is_regular_file(word, no_file);
  });
}

bool is_offered(const JobKey& key) {
  constexpr std::array<std::string_view, 5> kOfPlansAlone = {"points", "certificate", "whole-trace",
                                                             "search-time", "search-windows"};
  return std::ranges::find(kOfPlansAlone, key.name) == kOfPlansAlone.end();
}

/// Leaves aside what a job file says for `harpe plan` alone: searches, proofs, and its folder.
void leave_plans_aside(PlanJob& job, const PlanJobArguments& arguments) {
  const auto is_out = [](const JobEntry& entry) { return entry.key->name == "out"; };
  if (std::ranges::none_of(arguments.options, is_out)) job.out.reset();
  job.search_time = Seconds{0};
  job.search_windows.reset();
  job.certificate = false;
}

Result<Frontier> own_frontier(const PlanJob& job, const PlanInputs& inputs, Console& console) {
  ProgressBar bar(console, "frontier");
  return characterize(inputs.pipeline, inputs.profile,
                      {.blocking_power = inputs.blocking_power,
                       .gpus_per_stage = job.gpus_per_stage,
                       .job = job.name,
                       .progress = [&bar](double fraction) { bar.update(fraction); }});
}

Result<Planned> own_plans(const Frontier& frontier, const PlanJob& job, Console& console) {
  LongPlanSearch search(job, console);
  ProgressBar bar(console, "policies");
  Planned planned = HARPE_TRY(make_plans(
      frontier, job, kPointsOfCurve, [&bar](double share) { bar.update(share); }, search));
  planned.rivals = HARPE_TRY(rivals_of(frontier, planned, job.gpu));
  return planned;
}

std::string note_on_lateness(const PlanJob& job) {
  std::string lateness = latency_sentence(job.switch_latency);
  if (!lateness.empty() || job.states_latency) return lateness;
  return "Clock changes are taken as free; --switch-latency 10ms prices clocks that come late";
}

Result<Outcome> run_compare(const CompareArguments& arguments, Console& console) {
  const Compared compared{
      HARPE_TRY(schedules_of(arguments.schedules)),
      HARPE_TRY(chosen_of(arguments.policies, "--policies", policy_names(), "policy"))};
  if (compared.schedules.empty() && compared.policies.empty())
    return Error::invalid("--schedules none and --policies none leave nothing to compare");
  PlanJob job = HARPE_TRY(read_job(arguments));
  leave_plans_aside(job, arguments);
  for (const std::string& sentence : job.warnings) console.warn(sentence);
  const Profile profile = HARPE_TRY(given_profile(job.profile.string(), console));
  HARPE_TRY(check_units(profile, job.profile.string(), true, console));
  const PlanInputs inputs = HARPE_TRY(inputs_of(job, profile));
  if (job.schedule_is_file) {  // the others are made for as many stages and micro-batches
    job.stages = inputs.pipeline.schedule().stages;
    job.micro_batches = inputs.pipeline.schedule().micro_batches;
  }
  if (const auto note = note_on_stages(inputs.pipeline.schedule(), profile)) console.warn(*note);
  HARPE_TRY(check_inputs(job, inputs, console));
  if (job.out) {
    HARPE_TRY(spare_inputs(*job.out, job,
                           {"comparison.json", "schedules.csv", "policies.csv", "comparison.svg"}));
    HARPE_TRY(check_writable_directory(*job.out));
  }
  std::optional<ClusterTerms> cluster;
  if (job.cluster.given()) cluster = HARPE_TRY(cluster_terms(job.cluster));
  const auto start = std::chrono::steady_clock::now();
  const Frontier frontier = HARPE_TRY(own_frontier(job, inputs, console));
  HARPE_TRY(check_objective(job, inputs, frontier, console));
  Planned planned = HARPE_TRY(own_plans(frontier, job, console));
  const Seconds harpe_time = seconds_since(start);
  planned.cluster = std::move(cluster);

  JobComparison comparison{.frontier = frontier,
                           .planned = planned,
                           .schedules = {},
                           .policies = {},
                           .notes = inputs.premises};
  comparison.notes.insert(comparison.notes.end(), inputs.notes.begin(), inputs.notes.end());
  if (const std::string note = note_on_lateness(job); !note.empty())
    comparison.notes.push_back(note);
  comparison.policies = compare_policies(job, frontier, planned, compared.policies, harpe_time);
  {
    ProgressBar bar(console, "schedules");
    comparison.schedules =
        compare_schedules(job, profile, planned.reference.fastest, compared.schedules,
                          [&bar](double share) { bar.update(share); });
  }
  WrittenFiles done;
  if (job.out)
    done = HARPE_TRY(write_output_files(*job.out, comparison_files(comparison, job), {}));
  std::string text = comparison_text(comparison, job, console.colour_out);
  if (!done.written.empty()) {
    text += "\nWritten:\n";
    for (const std::string& file : done.written) text += "  " + file + '\n';
  }
  return Outcome{.text = std::move(text), .json = comparison_json(comparison, job, done.written)};
}

}  // namespace

void add_compare_command(Commands& commands) {
  const auto arguments = std::make_shared<CompareArguments>();
  CLI::App& app = commands.add(
      commands.root(), "compare",
      "compare schedules, and ways to set the GPUs\n"
      "Answers what a cluster would save, against what, and with which schedule: it prices every "
      "schedule that the profile has rows for, with and without a plan, and compares Harpe's plan "
      "for the job's own schedule with one clock and one power limit for all GPUs, one clock per "
      "stage "
      "(ZeusPerStage), EnvPipe, and Perseus's algorithm as published. Every schedule "
      "does the same work.\n"
      "Power limits come from the profile's rows, else from a model of the GPU (--gpu), and are "
      "then marked as estimated.\n"
      "With --out DIR it writes comparison.json, schedules.csv, policies.csv and comparison.svg. "
      "Takes the job files of harpe plan; keys for its files and searches are left aside.",
      "harpe compare --profile gpt3.csv --micro-batches 96 --blocking-power 83.64\n"
      "harpe compare --profile gpt3.csv --micro-batches 96 --blocking-power 83.64 \\\n"
      "    --gpu a100-sxm --slowdown 5% --out comparison\n"
      "harpe compare --profile gpt3.csv --micro-batches 96 --blocking-power 83.64 \\\n"
      "    --gpus-per-stage 8 --pipelines 16 --price '0.10 EUR/kWh' --carbon DE --pue 1.2\n"
      "harpe compare job.toml --schedules 1f1b,zb-h1,zb-v --policies none",
      [arguments](Console& console) { return run_compare(*arguments, console); });
  add_text(app, "--schedules", "all|none|LIST",
           "Schedules to price: names (harpe schedule show --list) or files, with commas between "
           "(default all)",
           arguments->schedules)
      ->group("Comparison");
  add_text(app, "--policies", "all|none|LIST",
           "Ways to set the GPUs: all-max, one_clock, one_power_limit, one_clock_per_stage, "
           "envpipe, envpipe_emulated, perseus, harpe (default all)",
           arguments->policies)
      ->group("Comparison");
  add_job_arguments(app, arguments, is_offered);
}

}  // namespace harpe
