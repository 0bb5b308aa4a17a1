#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "harpe/base/csv.h"
#include "harpe/base/file.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/result.h"
#include "harpe/base/text.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/input/input_file.h"
#include "harpe/command/plan_cli/cluster.h"
#include "harpe/command/plan_cli/comparison.h"
#include "harpe/command/plan_cli/given_profile.h"
#include "harpe/command/plan_cli/job_doubts.h"
#include "harpe/command/plan_cli/job_options.h"
#include "harpe/command/plan_cli/plan_cli.h"
#include "harpe/command/plan_cli/plan_output.h"
#include "harpe/command/plan_cli/rivals.h"
#include "harpe/plan/frontier/priced_parts.h"
#include "harpe/report/comparison_svg.h"

namespace harpe::command {
namespace {

/// Reference values of the job's own schedule: all-max for savings, and the time of the fastest
/// iteration for slowdowns.
struct Against {
  carbon::IterationCost all_max;
  Seconds fastest;

  explicit Against(const JobComparison& comparison)
      : all_max{comparison.planned.all_max.iteration_time,
                comparison.planned.all_max.iteration_energy},
        fastest(comparison.frontier.min_time()) {}
  double slowdown(const carbon::IterationCost& cost) const { return cost.time / fastest - 1; }
  double saving(const carbon::IterationCost& cost) const {
    return 1 - cost.energy / all_max.energy;
  }
};

double own_saving(const ScheduleRow& row) {
  return 1 - row.fastest.energy / row.all_max.energy;
}

std::string joules(const std::optional<carbon::IterationCost>& cost) {
  return cost ? grouped(cost->energy.value, 1) : "-";
}

/// Returns the peak activations in units of a stage: 3 chunks at 2 chunks per stage are 1.5.
std::string activations(const ScheduleRow& row) {
  return (row.recomputes ? "inputs " : "") +
         shortest(static_cast<double>(row.peak_activations) / row.chunks, 4);
}

/// Returns the gap between the policy and the lower bound at its time; "-" if it is unknown.
std::string gap_text(const PolicyRow& row) {
  if (row.lower_bound <= Joules{0}) return "-";
  return percent_text(100 * (row.cost.energy / row.lower_bound - 1), 2);
}

/// Returns the policy's own figures for its fastest plan, and the cost of that plan's clocks.
std::string planned_text(const PolicyRow& row) {
  return row.policy + ": expects " + fixed(row.planned->time.value, 4) + " s and " +
         grouped(row.planned->energy.value, 1) + " J from its fastest plan, whose clocks need " +
         fixed(row.planned_cost->time.value, 4) + " s and " +
         grouped(row.planned_cost->energy.value, 1) + " J";
}

/// Returns the times of the searches, such as "perseus 0.53 s, harpe 0.21 s".
std::string computing_times(const std::vector<PolicyRow>& policies) {
  std::string text;
  for (const PolicyRow& row : policies) {
    if (!row.computing_time || !row.why_not.empty()) continue;
    text +=
        (text.empty() ? "" : ", ") + row.policy + ' ' + fixed(row.computing_time->value, 2) + " s";
  }
  return text.empty() ? text : "computed (each curve) in: " + text;
}

std::string policies_text(const JobComparison& comparison, const PlanJob& job, bool coloured) {
  if (comparison.policies.empty()) return "";
  const Against against(comparison);
  const Plan& chosen = comparison.planned.chosen;
  std::string text = "Policies for " + chosen.schedule + ", " + text_of(job.objective) + '\n';
  Table table =
      Table::of({"policy", "setting", "time s", "slowdown", "energy J", "saving", "gap"}, 2);
  std::string remarks;
  bool misses = false;
  for (const PolicyRow& row : comparison.policies) {
    if (!row.why_not.empty()) {
      table.add({row.policy, "-", "-", "-", "-", "-", "-"});
      remarks += wrapped_text(row.policy + ": " + row.why_not, kTextColumns);
      continue;
    }
    misses = misses || !row.meets_objective;
    table.add(
        {row.policy + (row.meets_objective ? "" : " *"), row.setting, fixed(row.cost.time.value, 4),
         percent_text(100 * against.slowdown(row.cost), 2), grouped(row.cost.energy.value, 1),
         percent_text(100 * against.saving(row.cost), 2), gap_text(row)},
        row.policy == "harpe");
    if (row.planned) remarks += wrapped_text(planned_text(row), kTextColumns);
    if (row.source != "profile") remarks += row.policy + ": by the " + row.source + ", estimated\n";
  }
  text += table.text(coloured, kTextColumns);
  if (misses) text += "* does not meet the objective: this is the nearest setting\n";
  if (const std::string times = computing_times(comparison.policies); !times.empty())
    remarks += wrapped_text(times, kTextColumns);
  return text + remarks;
}

/// Returns the schedule with the least energy at the time of the job's own; null if there is none.
const ScheduleRow* least_at_own(const ScheduleComparison& schedules) {
  const ScheduleRow* least = nullptr;
  for (const ScheduleRow& row : schedules.rows) {
    if (!row.at_own || (least != nullptr && row.at_own->energy >= least->at_own->energy)) continue;
    least = &row;
  }
  return least;
}

/// Schedules that have no price for the same reason.
struct Unpriced {
  std::string names, why;
};

void add_unpriced(const ScheduleRow& row, std::vector<Unpriced>& reasons) {
  std::string why = row.why_not;
  // Errors of a schedule's own options begin with its name.
  if (why.starts_with(row.name + ": ")) why.erase(0, row.name.size() + 2);
  const auto same = std::ranges::find(reasons, why, &Unpriced::why);
  if (same == reasons.end()) {
    reasons.push_back({row.name, why});
  } else {
    same->names += ", " + row.name;
  }
}

/// Returns the premises of the schedules' prices in addition to the profile, each once.
std::string schedule_premises(const JobComparison& comparison) {
  std::vector<std::string> premises;
  const auto add = [&](const std::string& premise) {
    if (std::ranges::find(premises, premise) == premises.end()) premises.push_back(premise);
  };
  for (const ScheduleRow& row : comparison.schedules.rows) {
    if (!row.is_priced()) continue;
    if (row.chunks > 1 && comparison.frontier.pipeline().transfers().none()) {
      add("Transfers are assumed to be free; schedules with several chunks a stage have more of "
          "them (--transfer-forward, --transfer-backward)");
    }
    for (const std::string& premise : row.premises) add(premise);
  }
  std::string text;
  for (const std::string& premise : premises)
    text += wrapped_text("note: " + premise, kTextColumns);
  return text;
}

std::string schedules_text(const JobComparison& comparison, bool coloured) {
  const ScheduleComparison& schedules = comparison.schedules;
  if (schedules.rows.empty()) return "";
  const std::string own = comparison.planned.chosen.schedule;
  // Schedules are compared without a straggler, but all-max of `planned` may wait for one.
  const Joules own_all_max = comparison.frontier.all_max().iteration_energy;
  // If the own schedule is the fastest, both times share one column.
  const bool own_is_fastest = schedules.own_time <= schedules.fastest_time;
  std::vector<std::string> heading = {"schedule",  "all-max s", "all-max J",
                                      "fastest s", "fastest J", "saving"};
  if (!own_is_fastest) heading.push_back("J by " + fixed(schedules.fastest_time.value, 3) + " s");
  heading.push_back("J by " + fixed(schedules.own_time.value, 3) + " s");
  heading.emplace_back("activations");
  Table table = Table::of(heading);
  std::vector<Unpriced> reasons;
  for (const ScheduleRow& row : schedules.rows) {
    if (!row.is_priced()) {
      add_unpriced(row, reasons);
      continue;
    }
    std::vector<std::string> cells = {row.name,
                                      fixed(row.all_max.time.value, 4),
                                      grouped(row.all_max.energy.value, 1),
                                      fixed(row.fastest.time.value, 4),
                                      grouped(row.fastest.energy.value, 1),
                                      percent_text(100 * own_saving(row), 2)};
    if (!own_is_fastest) cells.push_back(joules(row.at_fastest));
    cells.push_back(joules(row.at_own));
    cells.push_back(activations(row));
    table.add(std::move(cells), row.name == own);
  }
  std::string text = "Schedules\n";
  if (!table.rows.empty()) {
    text += table.text(coloured, kTextColumns);
    text += '\n' +
            wrapped_text(
                "fastest: Harpe's plan without slowdown, and its saving against all-max of the "
                "same schedule; by: least energy within the time of " +
                    (own_is_fastest ? "" : schedules.fastest + ", the fastest, and of ") + own +
                    "; activations: maximum that a stage holds at the same time, in whole stages",
                kTextColumns);
    const ScheduleRow* least = least_at_own(schedules);
    if (least != nullptr && least->name != own) {
      text += wrapped_text("As fast as " + own + ", " + least->name + " needs the least energy: " +
                               percent_text(100 * (1 - least->at_own->energy / own_all_max), 1) +
                               " less than " + own + " at all-max",
                           kTextColumns);
    }
  }
  text += schedule_premises(comparison);
  if (!reasons.empty()) text += "Not possible with this profile:\n";
  for (const Unpriced& one : reasons)
    text += wrapped_text("  " + one.names + ": " + one.why, kTextColumns, 4);
  return text;
}

Json cost_json(const std::optional<carbon::IterationCost>& cost) {
  if (!cost) return nullptr;
  return {{"iteration_time_s", cost->time.value}, {"iteration_energy_j", cost->energy.value}};
}

Json policy_json(const PolicyRow& row, const Against& against) {
  Json json = {{"policy", row.policy}};
  if (!row.why_not.empty()) {
    json["missing"] = row.why_not;
    return json;
  }
  json.update(
      {{"setting", row.setting.empty() ? Json(nullptr) : Json(row.setting)},
       {"iteration_time_s", row.cost.time.value},
       {"iteration_energy_j", row.cost.energy.value},
       {"slowdown", against.slowdown(row.cost)},
       {"saving", against.saving(row.cost)},
       {"meets_objective", row.meets_objective},
       {"lower_bound_j", row.lower_bound > Joules{0} ? Json(row.lower_bound.value) : Json(nullptr)},
       {"source", row.source},
       {"computing_time_s", row.computing_time ? Json(row.computing_time->value) : Json(nullptr)}});
  if (row.planned) {
    json["fastest_as_planned"] = cost_json(row.planned);
    json["fastest"] = cost_json(row.planned_cost);
  }
  for (const carbon::IterationCost& cost : row.curve) json["curve"].push_back(cost_json(cost));
  return json;
}

Json schedule_json_row(const ScheduleRow& row) {
  Json json = {{"schedule", row.name}};
  if (!row.is_priced()) {
    json["missing"] = row.why_not;
    return json;
  }
  json.update({{"all_max", cost_json(row.all_max)},
               {"fastest", cost_json(row.fastest)},
               {"saving", own_saving(row)},
               {"at_fastest_schedule", cost_json(row.at_fastest)},
               {"at_own_schedule", cost_json(row.at_own)},
               {"peak_activations", row.peak_activations},
               {"chunks", row.chunks},
               {"recomputes", row.recomputes},
               {"notes", row.premises}});
  return json;
}

std::string csv_cost(const std::optional<carbon::IterationCost>& cost) {
  return cost ? shortest(cost->time.value) + ',' + shortest(cost->energy.value) : ",";
}

std::string schedules_csv(const ScheduleComparison& schedules) {
  std::string text =
      "schedule,all_max_s,all_max_j,fastest_s,fastest_j,saving,at_fastest_schedule_s,"
      "at_fastest_schedule_j,at_own_schedule_s,at_own_schedule_j,peak_activations,chunks,missing\n";
  for (const ScheduleRow& row : schedules.rows) {
    text += csv_cell(row.name) + ',';
    if (!row.is_priced()) {
      text += std::string(11, ',') + csv_cell(row.why_not) + '\n';
      continue;
    }
    text += csv_cost(row.all_max) + ',' + csv_cost(row.fastest) + ',' + shortest(own_saving(row)) +
            ',' + csv_cost(row.at_fastest) + ',' + csv_cost(row.at_own) + ',' +
            std::to_string(row.peak_activations) + ',' + std::to_string(row.chunks) + ",\n";
  }
  return text;
}

/// Returns the curves for plotting, with the point at the objective marked.
std::string policies_csv(const JobComparison& comparison) {
  const Against against(comparison);
  std::string text =
      "policy,source,iteration_time_s,iteration_energy_j,slowdown,saving,at_objective,"
      "computing_time_s\n";
  for (const PolicyRow& row : comparison.policies) {
    const auto add = [&](const carbon::IterationCost& cost, bool at_objective) {
      text += csv_cell(row.policy) + ',' + csv_cell(row.source) + ',' + csv_cost(cost) + ',' +
              shortest(against.slowdown(cost)) + ',' + shortest(against.saving(cost)) + ',' +
              (at_objective ? "1," : "0,") +
              (row.computing_time ? shortest(row.computing_time->value) : "") + '\n';
    };
    if (!row.why_not.empty()) continue;
    add(row.cost, true);
    for (const carbon::IterationCost& cost : row.curve) add(cost, false);
  }
  return text;
}

report::ComparisonPicture picture_of(const JobComparison& comparison, const PlanJob& job) {
  const Plan& chosen = comparison.planned.chosen;
  report::ComparisonPicture picture{
      .title = chosen.job.empty() ? without_gz(job.profile).stem().string() : chosen.job,
      .subtitle = subtitle_of(chosen, job) + "; " + text_of(job.objective),
      .schedule = chosen.schedule,
      .is_synthetic = chosen.synthetic,
      .policies = {},
      .schedules = {}};
  for (const PolicyRow& row : comparison.policies) {
    if (!row.why_not.empty()) continue;
    report::PolicyCurve curve{.name = row.policy == "harpe" ? "Harpe" : row.policy,
                              .remark = row.source == "profile" ? "" : row.source + ", estimated",
                              .is_ours = row.policy == "harpe",
                              .at_objective = {row.cost.time, row.cost.energy},
                              .points = {}};
    for (const carbon::IterationCost& cost : row.curve)
      curve.points.emplace_back(cost.time, cost.energy);
    picture.policies.push_back(std::move(curve));
  }
  for (const ScheduleRow& row : comparison.schedules.rows) {
    if (!row.is_priced()) continue;
    picture.schedules.push_back(
        {row.name, row.fastest.time, row.all_max.energy, row.fastest.energy});
  }
  return picture;
}

std::string comparison_text(const JobComparison& comparison, const PlanJob& job, bool coloured) {
  const Plan& chosen = comparison.planned.chosen;
  std::string text = synthetic_line(chosen.synthetic, coloured) + subtitle_of(chosen, job) + '\n';
  for (const std::string& note : comparison.notes)
    text += painted("note:", Paint::kBold, coloured) +
            wrapped_text("note: " + note, kTextColumns).substr(std::string_view("note:").size());
  const std::string policies = policies_text(comparison, job, coloured);
  const std::string schedules = schedules_text(comparison, coloured);
  text += policies + (policies.empty() || schedules.empty() ? "" : "\n") + schedules;
  if (const auto& cluster = comparison.planned.cluster)
    text += '\n' +
            wrapped_lines(cluster_text(*cluster, cluster_costs(comparison.planned)), kTextColumns);
  return text;
}

/// Returns {"job", "schedule", "objective", "synthetic", "all_max", "policies", "schedules",
/// "notes", "files"}: see docs/formats.md.
std::string comparison_json(const JobComparison& comparison, const PlanJob& job,
                            const std::vector<std::string>& files) {
  const Against against(comparison);
  const Plan& chosen = comparison.planned.chosen;
  Json document = {{"job", chosen.job},
                   {"synthetic", chosen.synthetic},
                   {"schedule", chosen.schedule},
                   {"stages", chosen.stages},
                   {"microbatches", chosen.micro_batches},
                   {"objective", text_of(job.objective)},
                   {"all_max", cost_json(against.all_max)}};
  document["policies"] = Json::array();
  for (const PolicyRow& row : comparison.policies)
    document["policies"].push_back(policy_json(row, against));
  document["schedules"] = Json::array();
  for (const ScheduleRow& row : comparison.schedules.rows)
    document["schedules"].push_back(schedule_json_row(row));
  document["fastest_schedule"] =
      comparison.schedules.fastest.empty() ? Json(nullptr) : Json(comparison.schedules.fastest);
  if (const auto& cluster = comparison.planned.cluster)
    document["cluster"] = cluster_json(*cluster, cluster_costs(comparison.planned));
  document["notes"] = comparison.notes;
  document["files"] = files;
  return json_text(document);
}

/// Returns comparison.json, schedules.csv, policies.csv and comparison.svg.
std::vector<OutputFile> comparison_files(const JobComparison& comparison, const PlanJob& job) {
  return {{"comparison.json", comparison_json(comparison, job, {})},
          {"schedules.csv", schedules_csv(comparison.schedules)},
          {"policies.csv", policies_csv(comparison)},
          {"comparison.svg", report::comparison_svg(picture_of(comparison, job))}};
}

constexpr int kPointsOfCurve = 24;

struct CompareArguments : PlanJobArguments {
  std::string schedules = "all", policies = "all";
};

/// The schedules and policies to compare, in the order given.
struct Compared {
  std::vector<std::string> schedules, policies;
};

/// Returns the word in lower case with '-' for '_' and ' ': "one_clock" equals "one clock".
std::string plain(const std::string& word) {
  std::string name = lower(trim(word));
  std::ranges::replace(name, '_', '-');
  std::ranges::replace(name, ' ', '-');
  return name;
}

/// Returns the known names of a list, each once; all of them for "all" and none for "none". Other
/// words are kept if `is_file` accepts them.
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

/// Returns names of generators, and files as `--schedule` accepts them.
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

/// Resets settings that only `harpe plan` uses: searches, proofs, and a job file's output folder.
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
  return "Clock changes are assumed to be free; --switch-latency 10ms counts the cost of late "
         "changes";
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
  if (job.schedule_is_file) {  // the same numbers apply to the other schedules
    job.stages = inputs.pipeline.schedule().stages;
    job.micro_batches = inputs.pipeline.schedule().micro_batches;
  }
  if (const auto note = plan::note_on_stages(inputs.pipeline.schedule(), profile))
    console.warn(*note);
  HARPE_TRY(check_inputs(job, inputs, console));
  if (job.out) {
    HARPE_TRY(spare_inputs(*job.out, job,
                           {"comparison.json", "schedules.csv", "policies.csv", "comparison.svg"}));
    HARPE_TRY(check_writable_directory(*job.out));
  }
  std::optional<carbon::ClusterTerms> cluster;
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
      "compare schedules and GPU settings\n"
      "Shows the savings of a cluster, by policy and by schedule. Computes time and energy of "
      "every schedule for which the profile has rows, with and without a plan; all schedules do "
      "the same work. For the job's own schedule, compares Harpe's plan with one clock and one "
      "power limit for all GPUs, one clock per stage (ZeusPerStage), EnvPipe, and Perseus's "
      "algorithm as published.\n"
      "Power limits are from the rows of the profile, or else from a model of the GPU (--gpu). "
      "Results of the model are marked as estimated.\n"
      "With --out DIR, the command writes comparison.json, schedules.csv, policies.csv and "
      "comparison.svg. It accepts job files of harpe plan, and ignores their keys for files and "
      "searches.",
      "harpe compare --profile gpt3.csv --micro-batches 96 --blocking-power 83.64\n"
      "harpe compare --profile gpt3.csv --micro-batches 96 --blocking-power 83.64 \\\n"
      "    --gpu a100-sxm --slowdown 5% --out comparison\n"
      "harpe compare --profile gpt3.csv --micro-batches 96 --blocking-power 83.64 \\\n"
      "    --gpus-per-stage 8 --pipelines 16 --price '0.10 EUR/kWh' --carbon DE --pue 1.2\n"
      "harpe compare job.toml --schedules 1f1b,zb-h1,zb-v --policies none",
      [arguments](Console& console) { return run_compare(*arguments, console); });
  add_text(app, "--schedules", "all|none|LIST",
           "Schedules to compare: names (see harpe schedule show --list) or files, separated by "
           "commas (default all)",
           arguments->schedules)
      ->group("Comparison");
  add_text(app, "--policies", "all|none|LIST",
           "Policies to compare: all-max, one_clock, one_power_limit, one_clock_per_stage, "
           "envpipe, envpipe_emulated, perseus, harpe (default all)",
           arguments->policies)
      ->group("Comparison");
  add_job_arguments(app, arguments, is_offered);
}

}  // namespace harpe::command
