#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/batch_size_view.h"
#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/job_server.h"
#include "harpe/command/cli/job_view.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/options.h"
#include "harpe/command/input/input_file.h"
#include "harpe/net/http_client/percent_encoded.h"

namespace harpe::command {
namespace {

constexpr const char* kPath = "/v1/recurring-jobs";

struct BatchSizeArguments {
  ServerArguments server;
  std::string job, trial, file;
  std::string epoch, metric;
  std::optional<Seconds> time;
  std::optional<double> energy;
};

/// Sends a request about the job.
Result<std::string> ask_job(const BatchSizeArguments& arguments, const std::string& method,
                            const std::string& below, std::string body = {}) {
  JobServer server = HARPE_TRY(JobServer::open(arguments.server));
  return server.ask_text(method,
                         std::string(kPath) + "/" + net::percent_encoded(arguments.job) + below,
                         std::move(body));
}

Result<Outcome> list_jobs(const BatchSizeArguments& arguments, Console& console) {
  JobServer server = HARPE_TRY(JobServer::open(arguments.server));
  const Json jobs = HARPE_TRY(ask_for_pages(server, std::string(kPath) + "?limit=1000"));
  return Outcome{.text = recurring_jobs_table(jobs.dump(), console.colour_out),
                 .json = json_text(jobs)};
}

Result<Outcome> show_job(const BatchSizeArguments& arguments, Console& console) {
  const std::string status = HARPE_TRY(ask_job(arguments, "GET", ""));
  return Outcome{.text = recurring_job_view(status, console.colour_out), .json = indented(status)};
}

Result<Outcome> register_job(const BatchSizeArguments& arguments) {
  std::string specification = HARPE_TRY(read_input_file(arguments.file));
  const std::string job = HARPE_TRY(ask_job(arguments, "PUT", "", std::move(specification)));
  return Outcome{.text = "registered " + arguments.job + "\n", .json = indented(job)};
}

Result<Outcome> next(const BatchSizeArguments& arguments) {
  const std::string trial = HARPE_TRY(ask_job(arguments, "POST", "/trials"));
  return Outcome{.text = trial_line(trial), .json = indented(trial)};
}

Result<std::string> trial_path(const BatchSizeArguments& arguments) {
  const Result<int> trial = parse_count(arguments.trial, 1, std::numeric_limits<int>::max());
  if (!trial.ok()) return Error::invalid("TRIAL: " + trial.error().text());
  return "/trials/" + std::to_string(*trial);
}

Result<Outcome> report(const BatchSizeArguments& arguments) {
  const std::string path = HARPE_TRY(trial_path(arguments)) + "/reports";
  const Result<int> epoch = parse_count(arguments.epoch, 1, std::numeric_limits<int>::max());
  if (!epoch.ok()) return Error::invalid("--epoch: " + epoch.error().text());
  Json body = {
      {"epoch", *epoch}, {"time_s", arguments.time->value}, {"energy_j", *arguments.energy}};
  // A diverged training prints values such as nan, which reach no target.
  const auto metric = parse_number(arguments.metric);
  body["metric"] = metric ? Json(*metric) : Json();
  const std::string verdict = HARPE_TRY(ask_job(arguments, "POST", path, body.dump()));
  return Outcome{.text = verdict_line(verdict), .json = indented(verdict)};
}

Result<Outcome> end(const BatchSizeArguments& arguments) {
  const std::string path = HARPE_TRY(trial_path(arguments)) + "/end";
  const std::string ended = HARPE_TRY(ask_job(arguments, "POST", path));
  return Outcome{.text = "trial " + arguments.trial + " has ended\n", .json = indented(ended)};
}

Result<Outcome> retract(const BatchSizeArguments& arguments) {
  const std::string path = HARPE_TRY(trial_path(arguments));
  const std::string ended = HARPE_TRY(ask_job(arguments, "DELETE", path));
  return Outcome{.text = "trial " + arguments.trial + " is retracted\n", .json = indented(ended)};
}

Result<Outcome> show_log(const BatchSizeArguments& arguments) {
  const std::string log = HARPE_TRY(ask_job(arguments, "GET", "/log"));
  return Outcome{.text = log_text(log), .json = indented(log)};
}

Result<Outcome> remove_job(const BatchSizeArguments& arguments) {
  const std::string removed = HARPE_TRY(ask_job(arguments, "DELETE", ""));
  return Outcome{.text = "removed " + arguments.job + "\n", .json = indented(removed)};
}

/// Adds a subcommand about one job.
template <class Run>
std::pair<CLI::App*, std::shared_ptr<BatchSizeArguments>> add_about_job(
    Commands& commands, CLI::App& parent, const char* name, const char* description,
    const char* examples, Run run) {
  const auto arguments = std::make_shared<BatchSizeArguments>();
  CLI::App& app = commands.add(parent, name, description, examples,
                               [arguments, run](Console&) { return run(*arguments); });
  add_argument(app, "JOB", "Id of the recurring job", arguments->job);
  add_server_options(app, arguments->server);
  return {&app, arguments};
}

void add_looking(Commands& commands, CLI::App& parent) {
  const auto listed = std::make_shared<BatchSizeArguments>();
  CLI::App& list = commands.add(
      parent, "list",
      "list the recurring jobs of a server\n"
      "Shows the number of trials of each job, and its cheapest batch size so far.",
      "harpe batch-size list", [listed](Console& console) { return list_jobs(*listed, console); });
  add_server_options(list, listed->server);

  const auto shown = std::make_shared<BatchSizeArguments>();
  CLI::App& show = commands.add(parent, "show",
                                "show one recurring job\n"
                                "Shows the results of each batch size, and the newest trials.",
                                "harpe batch-size show mnist",
                                [shown](Console& console) { return show_job(*shown, console); });
  add_argument(show, "JOB", "Id of the recurring job", shown->job);
  add_server_options(show, shown->server);
  add_about_job(commands, parent, "log",
                "show the log of a recurring job\n"
                "Shows the first 1000 entries of the job's log: trials, the reasons for their "
                "batch sizes, and how they ended.",
                "harpe batch-size log mnist", show_log);
}

void add_training(Commands& commands, CLI::App& parent) {
  const auto [registration, registered] = add_about_job(
      commands, parent, "register",
      "register a recurring job\n"
      "Reads the properties that all recurrences share from a JSON file with the members of "
      "Zeus's batch size optimizer (docs/zeus.md). Registering the same job again changes nothing.",
      "harpe batch-size register mnist mnist.json", register_job);
  add_argument(*registration, "FILE", "The job as JSON", registered->file);

  add_about_job(commands, parent, "next",
                "begin a trial\n"
                "Begins a recurrence of the job: prints the batch size to train with, and the "
                "reason. A trial that does not report for longer than its lease counts as failed.",
                "harpe batch-size next mnist\n"
                "harpe batch-size next mnist --json",
                next);

  const auto [reporting, reported] = add_about_job(
      commands, parent, "report",
      "report the end of an epoch\n"
      "Prints whether the trial should continue. Time and energy count from the start of the "
      "trial.",
      "harpe batch-size report mnist 3 --epoch 4 --time 812.5s --energy 151000 --metric 0.61",
      report);
  add_argument(*reporting, "TRIAL", "Number of the trial", reported->trial);
  add_text(*reporting, "--epoch", "N", "Number of completed epochs", reported->epoch)->required();
  add_parsed(*reporting, "--time", "TIME", "Time since the trial began", reported->time,
             parse_seconds)
      ->required();
  add_parsed(*reporting, "--energy", "JOULES", "Energy of all GPUs since the trial began, J",
             reported->energy,
             [](const std::string& text) -> Result<std::optional<double>> {
               const auto joules = parse_number(text);
               if (!joules || *joules < 0) return Error::invalid("expected joules, from 0");
               return joules;
             })
      ->required();
  add_text(*reporting, "--metric", "VALUE",
           "Value to compare with the target; a non-number, such as nan, never reaches it",
           reported->metric)
      ->required();
}

void add_forgetting(Commands& commands, CLI::App& parent) {
  const auto [ending, ended] = add_about_job(
      commands, parent, "end",
      "give up a trial\n"
      "Ends the trial without a result; its batch size is explored again. Changes nothing if the "
      "trial has ended.",
      "harpe batch-size end mnist 3", end);
  add_argument(*ending, "TRIAL", "Number of the trial", ended->trial);

  const auto [retracting, retracted] = add_about_job(
      commands, parent, "retract",
      "withdraw a trial whose reports were wrong\n"
      "The trial's result no longer counts, and neither do the results of trials that were "
      "stopped because they cost more. Their batch sizes are explored again.",
      "harpe batch-size retract mnist 3", retract);
  add_argument(*retracting, "TRIAL", "Number of the trial", retracted->trial);
  add_about_job(commands, parent, "remove",
                "remove a recurring job from a server\n"
                "Removes the job and all its results from the server.",
                "harpe batch-size remove mnist", remove_job);
}

}  // namespace

void add_batch_size_command(Commands& commands) {
  CLI::App& parent = commands.add(
      commands.root(), "batch-size", "find the cheapest batch size of a recurring job",
      "harpe batch-size list\n"
      "harpe batch-size next mnist\n"
      "harpe batch-size report mnist 3 --epoch 4 --time 812.5s --energy 151000 --metric 0.61");
  add_looking(commands, parent);
  add_training(commands, parent);
  add_forgetting(commands, parent);
}

}  // namespace harpe::command
