#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/job_bill.h"
#include "harpe/command/cli/job_server.h"
#include "harpe/command/cli/job_view.h"
#include "harpe/command/cli/status_fields.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/plan_cli/job_options.h"
#include "harpe/command/plan_cli/plan_job.h"
#include "harpe/plan/objective/objective.h"

namespace harpe::command {
namespace {

struct JobArguments {
  ServerArguments server;
  std::string job;
  std::string pipeline, factor;
  std::optional<Seconds> duration;
  std::vector<Objective> objectives;  ///< one for each given option
  bool all = false;
  std::vector<JobEntry> cluster;  ///< terms of a bill
};

/// Opens the server and sends a request about the job.
Result<std::string> ask_job(const JobArguments& arguments, const std::string& method,
                            const std::string& below, std::string body = {}) {
  HARPE_TRY(job_path(arguments.job));
  JobServer server = HARPE_TRY(JobServer::open(arguments.server));
  return ask_of_job(server, arguments.job, method, below, std::move(body));
}

Result<Outcome> list_jobs(const JobArguments& arguments, Console& console) {
  JobServer server = HARPE_TRY(JobServer::open(arguments.server));
  const Json jobs =
      HARPE_TRY(ask_for_pages(server, std::string("/v1/jobs?activity=") +
                                          (arguments.all ? "active,idle,ended" : "active,idle")));
  const char* none =
      arguments.all ? "no jobs yet; docs/client.md describes how a training script registers one"
                    : "no active or idle job; --all also lists those that have ended";
  const int columns = console.out_is_terminal ? terminal_size().columns : kTextColumns;
  return Outcome{.text = jobs_table(jobs.dump(), console.colour_out, none, columns),
                 .json = json_text(jobs)};
}

Result<Outcome> show_job(const JobArguments& arguments, Console& console) {
  // Options are checked before the server is contacted.
  HARPE_TRY(make_part_of_job({}, arguments.cluster));
  const std::string status = HARPE_TRY(ask_job(arguments, "GET", ""));
  Outcome shown{.text = job_view(status, console.colour_out), .json = indented(status)};
  Json document = parsed(status);
  if (!document.is_object()) return shown;
  const PlanJob asked = HARPE_TRY(make_part_of_job(cluster_entries(document), arguments.cluster));
  if (!asked.cluster.given()) return shown;
  const carbon::ClusterTerms terms = HARPE_TRY(cluster_terms(asked.cluster));
  shown.text += '\n' + wrapped_lines(job_bill_text(document, terms), kTextColumns);
  document["cluster"] = job_bill_json(document, terms);
  shown.json = json_text(document);
  return shown;
}

Result<Outcome> show_log(const JobArguments& arguments) {
  const std::string log = HARPE_TRY(ask_job(arguments, "GET", "/log"));
  return Outcome{.text = log_text(log), .json = indented(log)};
}

/// Returns the path of a pipeline's straggler resource.
Result<std::string> pipeline_path(const JobArguments& arguments) {
  const Result<int> pipeline = parse_count(arguments.pipeline, 0, 1'000'000);
  if (!pipeline.ok()) return Error::invalid("PIPELINE: " + pipeline.error().text());
  return "/stragglers/" + std::to_string(*pipeline);
}

Result<Outcome> declare_straggler(const JobArguments& arguments) {
  const std::string path = HARPE_TRY(pipeline_path(arguments));
  std::string text = arguments.factor;
  if (text.ends_with('x')) text.pop_back();
  const auto factor = parse_number(text);
  if (!factor || !(*factor >= 1)) {
    return Error::invalid(
        "FACTOR: expected how many times longer an iteration takes, at least 1, such as 1.2 or "
        "1.2x, got " +
        in_quotes(arguments.factor));
  }
  if (arguments.duration && !(*arguments.duration > Seconds{0})) {
    return Error::invalid("--for must be longer than 0");
  }
  Json body = {{"factor", *factor}};
  if (arguments.duration) body["for_s"] = arguments.duration->value;
  const std::string response = HARPE_TRY(ask_job(arguments, "PUT", path, body.dump()));
  const std::string what = *factor == 1 ? "healthy" : shortest(*factor) + " times slower";
  return Outcome{.text = "declared: pipeline " + arguments.pipeline + " is " + what + "\n" +
                         warning_text(response),
                 .json = indented(response)};
}

Result<Outcome> heal(const JobArguments& arguments) {
  const std::string path = HARPE_TRY(pipeline_path(arguments));
  const std::string response = HARPE_TRY(ask_job(arguments, "DELETE", path));
  return Outcome{
      .text = "declared: pipeline " + arguments.pipeline + " is healthy\n" + warning_text(response),
      .json = indented(response)};
}

Result<Outcome> objective(const JobArguments& arguments) {
  if (arguments.objectives.size() != 1) {
    std::string names;
    for (const ObjectiveOption& option : objective_options())
      names += (names.empty() ? "--" : ", --") + std::string(option.name);
    return Error::invalid("give exactly one of " + names);
  }
  const Objective& given = arguments.objectives.front();
  const std::string response =
      HARPE_TRY(ask_job(arguments, "PUT", "/objective", objective_json(given)));
  return Outcome{
      .text = "objective: " + text_of(given) + "\n" + plans_text(response) + warning_text(response),
      .json = indented(response)};
}

Result<Outcome> remove_job(const JobArguments& arguments) {
  const std::string removed = HARPE_TRY(ask_job(arguments, "DELETE", ""));
  return Outcome{.text = "removed " + arguments.job + "\n", .json = indented(removed)};
}

/// Adds the options of all subcommands, and the job's id.
void add_server_job_options(CLI::App& app, JobArguments& arguments, bool with_job = true) {
  if (with_job) {
    add_job_argument(app, arguments.job);
  }
  add_server_options(app, arguments.server);
}

void add_pipeline(CLI::App& app, JobArguments& arguments) {
  add_argument(app, "PIPELINE", "Number of the pipeline (data rank), from 0", arguments.pipeline);
}

void add_views_of_jobs(Commands& commands, CLI::App& job) {
  const auto all = std::make_shared<JobArguments>();
  CLI::App& list = commands.add(
      job, "list",
      "list the jobs of a server\n"
      "Shows each job's phase, the time since its ranks' last report, its measured and its "
      "predicted iteration time, and its savings: as many columns as fit the terminal (elsewhere "
      "80 characters), all with --json.",
      "harpe job list\n"
      "harpe job list --all\n"
      "harpe job list --server https://harpe.example:7787",
      [all](Console& console) { return list_jobs(*all, console); });
  add_server_job_options(list, *all, false);
  list.add_flag("--all", all->all, "Include jobs that have ended");

  const auto shown = std::make_shared<JobArguments>();
  CLI::App& show = commands.add(
      job, "show",
      "show one job\n"
      "Shows a job's phase, the remaining time of profiling, its stragglers, plans and savings, "
      "and missing ranks. With any cluster option, also shows the cluster's power, emissions and "
      "costs under the plans in force, their savings against all-max and one clock for all GPUs, "
      "and the measured figures so far.",
      "harpe job show gpt3\n"
      "harpe job show gpt3 --price '0.10 EUR/kWh' --carbon DE --pue 1.2",
      [shown](Console& console) { return show_job(*shown, console); });
  add_server_job_options(show, *shown);
  for (const std::string_view name :
       {"hours", "price", "carbon", "pue", "host-power", "gpus-per-node"}) {
    const auto key = std::ranges::find(job_keys(), name, &JobKey::name);
    add_job_option(show, *key, {shown, &shown->cluster});
  }

  add_job_watch_command(commands, job);

  const auto logged = std::make_shared<JobArguments>();
  add_server_job_options(
      commands.add(job, "log",
                   "show the log of a job\n"
                   "Shows the first 1000 entries of the job's log: warnings, changes of phase, "
                   "plans and their reasons.",
                   "harpe job log gpt3", [logged](Console&) { return show_log(*logged); }),
      *logged);
  add_job_wait_command(commands, job);
  add_job_plan_command(commands, job);
  add_job_carbon_command(commands, job);
}

void add_declaring(Commands& commands, CLI::App& job) {
  const auto slow = std::make_shared<JobArguments>();
  CLI::App& straggler = commands.add(
      job, "straggler",
      "declare a pipeline slow\n"
      "From the next iteration on, the other pipelines slow down exactly as much as they would "
      "otherwise wait for this pipeline.",
      "harpe job straggler gpt3 1 1.2\n"
      "harpe job straggler gpt3 1 1.2 --for 30min",
      [slow](Console&) { return declare_straggler(*slow); });
  add_server_job_options(straggler, *slow);
  add_pipeline(straggler, *slow);
  add_argument(straggler, "FACTOR", "Factor by which its iterations take longer: 1.2",
               slow->factor);
  add_parsed(straggler, "--for", "DURATION", "Duration (default: until `harpe job heal`)",
             slow->duration, parse_seconds);

  const auto healed = std::make_shared<JobArguments>();
  CLI::App& heal_app =
      commands.add(job, "heal",
                   "declare a pipeline healthy again\n"
                   "All pipelines return to the plan of the job's objective.",
                   "harpe job heal gpt3 1", [healed](Console&) { return heal(*healed); });
  add_server_job_options(heal_app, *healed);
  add_pipeline(heal_app, *healed);

  const auto chosen = std::make_shared<JobArguments>();
  CLI::App& objective_app = commands.add(
      job, "objective",
      "choose another point of the frontier\n"
      "Sets the job's objective: a maximum slowdown, a deadline, the least energy while the job "
      "waits for a straggler elsewhere, a power cap, or the least energy at any iteration time.",
      "harpe job objective gpt3 --slowdown 5%\n"
      "harpe job objective gpt3 --power-cap 40kW",
      [chosen](Console&) { return objective(*chosen); });
  add_server_job_options(objective_app, *chosen);
  for (const ObjectiveOption& option : objective_options()) {
    const std::string name = "--" + std::string(option.name), help(option.help);
    const auto add = [chosen, &option, name](const std::string& text) {
      Result<Objective> objective = option.parse(text);
      if (!objective.ok()) throw CLI::ValidationError(name, objective.error().text());
      chosen->objectives.push_back(*objective);
    };
    if (option.value.empty()) {
      objective_app.add_flag_callback(name, [add] { add({}); }, help);
    } else {
      objective_app.add_option_function<std::string>(name, add, help)
          ->type_name(std::string(option.value));
    }
  }
}

void add_remove(Commands& commands, CLI::App& job) {
  const auto removed = std::make_shared<JobArguments>();
  add_server_job_options(
      commands.add(job, "remove",
                   "remove a job from a server\n"
                   "Removes the job with its profile and plans from the server. Ranks that still "
                   "train register it again, as a new job.",
                   "harpe job remove gpt3", [removed](Console&) { return remove_job(*removed); }),
      *removed);
}

}  // namespace

void add_job_command(Commands& commands) {
  CLI::App& job = commands.add(commands.root(), "job", "show and control training jobs",
                               "harpe job list\n"
                               "harpe job show gpt3\n"
                               "harpe job straggler gpt3 1 1.2");
  add_views_of_jobs(commands, job);
  add_declaring(commands, job);
  add_remove(commands, job);
}

}  // namespace harpe::command
