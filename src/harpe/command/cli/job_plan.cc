#include <memory>
#include <string>
#include <vector>

#include "harpe/base/json_text.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/job_server.h"
#include "harpe/command/command/command.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/options.h"
#include "harpe/command/plan_cli/plan_output.h"
#include "harpe/plan/frontier/plan.h"

namespace harpe::command {
namespace {

constexpr Seconds kLookAgain{0.2};  // first plans take parts of a second

struct PlanArguments {
  ServerArguments server;
  std::string job;
  std::string pipeline;  ///< 0 if empty
  std::string out;
  bool certificate = false;
};

std::string line(const char* name, const std::string& text) {
  return "  " + std::string(name) + std::string(12 - std::string(name).size(), ' ') + text + "\n";
}

/// \param frontier  in the server's format
std::string plan_text(const PlanArguments& arguments, const Plan& plan, const Json& frontier) {
  std::string text = arguments.job + ", pipeline " +
                     (arguments.pipeline.empty() ? "0" : arguments.pipeline) + ": " +
                     plan.schedule + ", " + std::to_string(plan.stages) + " stages, " +
                     std::to_string(plan.micro_batches) + " micro-batches\n";
  const double all_max_time = frontier["all_max"]["time_s"].get<double>();
  const double all_max_energy = frontier["all_max"]["energy_j"].get<double>();
  const double fastest = frontier["plans"][0]["time_s"].get<double>();
  text += line("time", seconds_text(plan.iteration_time.value) + ", " +
                           change_text(plan.iteration_time.value / fastest - 1) +
                           " against the fastest plan, " +
                           change_text(plan.iteration_time.value / all_max_time - 1) +
                           " against all-max");
  text += line("energy", grouped(plan.iteration_energy.value, 1) + " J, " +
                             change_text(plan.iteration_energy.value / all_max_energy - 1) +
                             " against all-max");
  if (plan.lower_bound > Joules{0}) {
    text += line("bound", "at least " + grouped(plan.lower_bound.value, 1) +
                              " J for this time; the plan needs " + fixed(100 * plan.gap(), 3) +
                              " % more");
  }
  return text;
}

bool has_points(const Json& frontier) {
  const auto is_point = [](const Json& one) {
    return one.is_object() && one.contains("time_s") && one["time_s"].is_number() &&
           one.contains("energy_j") && one["energy_j"].is_number();
  };
  return frontier.is_object() && frontier.contains("all_max") && is_point(frontier["all_max"]) &&
         frontier.contains("plans") && frontier["plans"].is_array() && !frontier["plans"].empty() &&
         is_point(frontier["plans"][0]);
}

/// Waits until no plans are being made for the job, or it ends. Fails if the user interrupts.
Status wait_for_first_plans(JobServer& server, const PlanArguments& arguments, Console& console) {
  InterruptScope interrupts;
  for (bool told = false;; told = true) {
    const std::string text = HARPE_TRY(ask_of_job(server, arguments.job, "GET", ""));
    const Json job = json_or_discarded(text);
    const bool are_made = job.is_object() && job.value("phase", Json()) == "characterizing" &&
                          job.value("activity", Json()) != "ended";
    if (!are_made) return ok_status();
    if (!told) console.err << "waiting for the plans of " << arguments.job << '\n' << std::flush;
    if (interrupts.wait(kLookAgain))
      return Error::invalid("interrupted while the server computed plans");
  }
}

Result<Outcome> show_plan(const PlanArguments& arguments, Console& console) {
  if (arguments.certificate && arguments.out.empty())
    return Error::invalid("--certificate needs --out, the folder for the file");
  const std::string path = HARPE_TRY(job_path(arguments.job));
  std::string query;
  if (!arguments.pipeline.empty()) {
    const Result<int> pipeline = parse_count(arguments.pipeline, 0, 1'000'000);
    if (!pipeline.ok()) return Error::invalid("--pipeline: " + pipeline.error().text());
    query = "?pipeline=" + std::to_string(*pipeline);
  }
  JobServer server = HARPE_TRY(JobServer::open(arguments.server));
  HARPE_TRY(wait_for_first_plans(server, arguments, console));
  const std::string document = HARPE_TRY(server.ask_text("GET", path + "/plan" + query));
  const Plan plan = HARPE_TRY(parse_plan_json(document, "the server's plan"));
  const std::string points = HARPE_TRY(server.ask_text("GET", path + "/frontier"));
  const Json frontier = json_or_discarded(points);
  if (!has_points(frontier)) return Error::invalid("the server's frontier has no plans");

  std::string text = plan_text(arguments, plan, frontier);
  if (arguments.out.empty()) return Outcome{.text = text, .json = document};
  std::vector<OutputFile> files{
      {"plan.json", document},
      {"profile.csv", HARPE_TRY(server.ask_text("GET", path + "/profile"))}};
  if (arguments.certificate) {
    files.emplace_back("certificate.json",
                       HARPE_TRY(server.ask_text("GET", path + "/certificate" + query)));
  }
  text += "\nWritten:\n";
  for (const std::string& file :
       HARPE_TRY(write_output_files(arguments.out, files, optional_plan_files())).written)
    text += "  " + file + "\n";
  return Outcome{.text = text, .json = document};
}

}  // namespace

void add_job_plan_command(Commands& commands, CLI::App& job) {
  const auto arguments = std::make_shared<PlanArguments>();
  CLI::App& app = commands.add(
      job, "plan",
      "show or save the plan that a job runs\n"
      "Shows the plan of one pipeline from the newest assignments, with its lower bound. With "
      "--out DIR, writes plan.json, as harpe plan does for the same inputs, and the job's "
      "profile.csv; with --certificate, also the proof of the bound. harpe verify checks these "
      "files.",
      "harpe job plan gpt3\n"
      "harpe job plan gpt3 --pipeline 1 --out plan --certificate",
      [arguments](Console& console) { return show_plan(*arguments, console); });
  add_job_argument(app, arguments->job);
  add_text(app, "--pipeline", "PIPELINE", "Number of the pipeline (data rank; default: 0)",
           arguments->pipeline);
  add_text(app, "--out", "DIR", "Directory for the files", arguments->out);
  app.add_flag("--certificate", arguments->certificate,
               "Also write certificate.json, for harpe verify");
  add_server_options(app, arguments->server);
}

}  // namespace harpe::command
