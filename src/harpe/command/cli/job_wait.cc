// `harpe job wait`: for scripts that restart training after it has ended to pause.

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "harpe/base/json_text.h"
#include "harpe/base/quantity_text.h"
#include "harpe/command/cli/job_server.h"
#include "harpe/command/cli/job_view.h"
#include "harpe/command/command/command.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/options.h"

namespace harpe::command {
namespace {

constexpr int kEnded = 1;  // exit status
constexpr Seconds kUsualInterval{10};

struct WaitArguments {
  ServerArguments server;
  std::string job;
  std::optional<Seconds> every;
};

/// Returns the outcome if the job may continue, has ended, or is unknown; nullopt if it must pause.
std::optional<Outcome> outcome_of(const std::string& job, const Result<std::string>& pause) {
  if (!pause.ok()) {
    return Outcome{.text = "the server does not know job " + job + ": no pause is requested\n",
                   .json = json_text(Json{{"job", job}, {"asked", false}, {"activity", nullptr}})};
  }
  const Json said = json_or_discarded(*pause);
  if (said.is_object() && said.value("asked", false)) return std::nullopt;
  const bool ended = said.is_object() && said.value("activity", "") == "ended";
  return Outcome{.text = job + (ended ? " has ended\n" : " can continue\n"),
                 .json = indented(*pause),
                 .status = ended ? kEnded : 0};
}

/// Polls the server until the job need not pause, also while the server is unreachable.
Result<Outcome> wait_for_job(const WaitArguments& arguments, Console& console) {
  const std::string path = HARPE_TRY(job_path(arguments.job));
  if (arguments.every && !(*arguments.every > Seconds{0})) {
    return Error::invalid("--every must be longer than 0");
  }
  InterruptScope interrupts;
  std::string told;
  const auto tell = [&](const std::string& text) {
    if (text != std::exchange(told, text)) console.err << text << '\n' << std::flush;
  };
  for (;;) {
    JobServer server = HARPE_TRY(JobServer::open(arguments.server));
    const Result<std::string> pause = server.ask_text("GET", path + "/pause");
    if (!pause.ok() && pause.error().code == ErrorCode::kUnavailable) {
      tell(pause.error().text() + "; trying again until Ctrl-C");
    } else if (!pause.ok() && pause.error().code != ErrorCode::kNotFound) {
      return pause.error();
    } else if (auto outcome = outcome_of(arguments.job, pause)) {
      return *std::move(outcome);
    } else {
      tell(arguments.job + ": " + pause_text(*pause));
    }
    if (interrupts.wait(arguments.every.value_or(kUsualInterval)))
      return Outcome{.text = {}, .json = {}, .status = 128 + interrupts.signal()};
  }
}

}  // namespace

void add_job_wait_command(Commands& commands, CLI::App& job) {
  const auto given = std::make_shared<WaitArguments>();
  CLI::App& wait = commands.add(
      job, "wait",
      "wait while a job must pause\n"
      "For scripts that restart training after it has ended for a pause. Returns when no pause is "
      "requested: with 0 if training can continue or the server does not know the job, with 1 if "
      "the job has ended. Keeps trying while the server is unavailable.",
      "harpe job wait gpt3\n"
      "sbatch --wait train.sh; while harpe job wait gpt3; do sbatch --wait train.sh; done",
      [given](Console& console) { return wait_for_job(*given, console); });
  add_job_argument(wait, given->job);
  add_server_options(wait, given->server);
  add_parsed(wait, "--every", "DURATION", "Time between two requests (default: 10s)", given->every,
             parse_seconds);
}

}  // namespace harpe::command
