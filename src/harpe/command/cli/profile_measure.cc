// `harpe profile measure`: profiles the user's own training with a server that runs as long as the
// training does.

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "harpe/base/file.h"
#include "harpe/base/json_text.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/job_server.h"
#include "harpe/command/cli/own_server.h"
#include "harpe/command/cli/profile_watch.h"
#include "harpe/command/cli/run_child.h"
#include "harpe/command/cli/shell_words.h"
#include "harpe/command/cli/status_fields.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/kept_result.h"
#include "harpe/command/command/options.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/plan/profile/latency_table.h"
#include "harpe/training/wire/wire.h"

namespace harpe::command {
namespace {

constexpr const char* kJob = "profile";
constexpr Seconds kLook{1};
/// Intervals between two lines of progress, on terminals and in files.
constexpr Seconds kForTerminals{10}, kForFiles{60};
/// Training that is only profiled is ended after clocks were refused for this long.
constexpr Seconds kLongestRefusal{60};
constexpr int kIncomplete = 1;  // exit status
constexpr const char* kOneClock =
    "No clock was set; each frequency was read from the GPUs during the work. A plan needs several "
    "clocks, which an agent sets (docs/agent.md).";

struct MeasureArguments {
  std::filesystem::path out = "profile.csv";
  OwnServerOptions server;
  std::string simulation;
  double max_slowdown = 20;  ///< percent
  bool stop = false;
};

/// The measurements of a job, complete or not.
struct JobFindings {
  std::string profile, specification;
  std::vector<Watts> blocking_power;
};

struct WrittenProfile {
  std::vector<std::string> files;  ///< beside the profile, each with a description
  std::vector<std::string> plan_words;
  std::string text;
  std::string table_from_before;  ///< older latency table that `harpe plan` uses; empty if none
};

class MeasureRun {
 public:
  MeasureRun(const MeasureArguments& arguments, Console& console)
      : arguments_(arguments),
        console_(console),
        watch_({.between = console.show_progress ? kForTerminals : kForFiles,
                .slowdown_limit = arguments.max_slowdown / 100,
                .as_is = arguments.server.profiling.as_is},
               system_clock().now()) {}

  Result<Outcome> run(const std::vector<std::string>& command);

 private:
  void say(const std::string& line) {
    if (console_.json) return;
    console_.err << painted("harpe:", Paint::kBold, console_.colour_err) << ' ' << line << '\n'
                 << std::flush;
  }
  Status look(JobServer& server);
  Status ask_job(JobServer& server);
  Status conclude(JobServer& server);
  Status write_partial(JobServer& server);
  Result<JobFindings> fetch(JobServer& server);
  void note(const KeptResult& kept);
  void end_training(ChildRunner& runner);
  Outcome not_executed(const std::string& program, const ChildExit& exit);
  Outcome outcome(const ChildExit& exit);

  const MeasureArguments& arguments_;
  Console& console_;
  ProfileWatch watch_;
  std::string id_, status_;
  std::optional<Instant> refused_;  ///< start of the time without set clocks
  bool complete_ = false, ended_by_us_ = false;
  std::optional<Error> failure_;
  std::optional<Error> trouble_;          ///< error that kept a profile from its place
  std::optional<std::string> unwritten_;  ///< text of a profile that could not be written anywhere
  Json report_ = Json::object();
};

/// Requests the status of the server's only job, the training, under any name.
Status MeasureRun::ask_job(JobServer& server) {
  if (id_.empty()) {
    const Json jobs = HARPE_TRY(ask_for_pages(server, "/v1/jobs?activity=active,idle,ended"));
    for (const Json& job : jobs["jobs"]) {
      if (id_.empty() && job.is_object()) id_ = job.value("id", "");
    }
  }
  status_.clear();
  if (!id_.empty()) status_ = HARPE_TRY(server.ask_text("GET", "/v1/jobs/" + id_));
  return ok_status();
}

Status MeasureRun::look(JobServer& server) {
  HARPE_TRY(ask_job(server));
  const Instant now = system_clock().now();
  for (const std::string& line : watch_.look(status_, now)) say(line);
  if (!id_.empty()) {
    const std::string log = HARPE_TRY(server.ask_text("GET", "/v1/jobs/" + id_ + "/log"));
    for (const std::string& line : watch_.warnings(log)) say("warning: " + line);
  }
  if (!watch_.clocks_are_refused()) {
    refused_.reset();
  } else if (!refused_) {
    refused_ = now;
  }
  return ok_status();
}

Result<JobFindings> MeasureRun::fetch(JobServer& server) {
  JobFindings measured;
  measured.profile = HARPE_TRY(server.ask_text("GET", "/v1/jobs/" + id_ + "/profile"));
  measured.specification = HARPE_TRY(server.ask_text("GET", "/v1/jobs/" + id_ + "/specification"));
  const Json status = json_or_discarded(status_);
  if (status.is_object() && status.contains("blocking_power_w")) {
    for (const Json& watts : status["blocking_power_w"])
      if (watts.is_number()) measured.blocking_power.push_back({watts.get<double>()});
  }
  return measured;
}

/// Returns the argument of `harpe plan --schedule`. Writes a schedule that no generator makes to a
/// file beside the profile.
Result<std::string> schedule_word(const JobFindings& measured, std::filesystem::path file,
                                  std::vector<std::string>& written) {
  const Json given = json_or_discarded(measured.specification);
  if (given.is_object() && given.contains("schedule") && given["schedule"].is_string())
    return given["schedule"].get<std::string>();
  const JobSpec spec = HARPE_TRY(training::parse_job_spec(measured.specification));
  file.replace_extension(".schedule.json");
  HARPE_TRY(write_file(file, schedule_json(spec.schedule) + "\n"));
  written.push_back(file.string() + ", the schedule");
  return file.string();
}

/// Writes the profile with the blocking power in comments.
Status write_profile(const std::filesystem::path& out, const JobFindings& measured,
                     const Profile& profile, WrittenProfile& done) {
  done = {};
  const JobSpec spec = HARPE_TRY(training::parse_job_spec(measured.specification));
  const std::string schedule = HARPE_TRY(schedule_word(measured, out, done.files));
  if (spec.switch_latency.is_table()) {
    const std::filesystem::path file = plan::latency_table_of(out);
    HARPE_TRY(write_file(file, plan::latency_table_csv(spec.switch_latency)));
    done.files.push_back(file.string() + ", the latency of clock changes");
  } else if (!spec.profiling.as_is && spec.switch_latency.longest() <= Seconds{0}) {
    std::error_code no_file;
    const std::filesystem::path older = plan::latency_table_of(out);
    if (std::filesystem::is_regular_file(older, no_file)) done.table_from_before = older.string();
  }
  std::string how = "Measured by harpe profile measure --as-is. ";
  if (spec.profiling.as_is) {
    how += kOneClock;
  } else {
    done.plan_words = plan_words(spec, schedule, out.string(), measured.blocking_power);
    how = "Measured by harpe profile measure. To plan with it:\n" + shell_text(done.plan_words);
  }
  done.text = profile_csv(profile, how);
  return write_file(out, done.text);
}

/// Writes the profile and prints how to use it.
Status MeasureRun::conclude(JobServer& server) {
  const JobFindings measured = HARPE_TRY(fetch(server));
  const Profile profile = HARPE_TRY(parse_profile(measured.profile, "the server's profile"));
  WrittenProfile done;
  const Result<KeptResult> kept = write_or_keep(
      arguments_.out,
      [&](const std::filesystem::path& at) { return write_profile(at, measured, profile, done); });
  if (!kept.ok()) {
    unwritten_ = done.text;
    return kept.error();
  }
  complete_ = true;
  note(*kept);
  std::string took;
  if (const auto begun = watch_.gathered())
    took = " in " + rough_time(system_clock().now() - *begun);
  for (const std::string& file : done.files) say("written: " + file);
  say("written: " + kept->at.string() + " (" + profile_summary(profile) + ")" + took +
      (profile.is_synthetic() ? "; synthetic, as the GPUs are simulated" : ""));
  if (!done.table_from_before.empty()) {
    say("note: " + done.table_from_before +
        " existed before; harpe plan uses its latencies: remove it if it is for other GPUs");
  }
  for (const std::string& doubt : doubts_of(profile, measured.blocking_power))
    say("warning: " + doubt);
  const bool as_is = arguments_.server.profiling.as_is;
  say(as_is ? kOneClock : "next: " + shell_text(done.plan_words));
  Json watts = Json::array();
  for (const Watts one : measured.blocking_power) watts.push_back(one.value);
  report_ = {{"profile", kept->at.string()},
             {"synthetic", profile.is_synthetic()},
             {"clocks_were_set", !as_is},
             {"blocking_power_w", std::move(watts)}};
  if (!as_is) report_["plan"] = done.plan_words;
  return ok_status();
}

void MeasureRun::note(const KeptResult& kept) {
  if (!kept.trouble) return;
  trouble_ = kept.trouble;
  say("error: " + trouble_->text());
}

/// Writes an incomplete profile to a file beside the intended one, if plans can be made from it.
Status MeasureRun::write_partial(JobServer& server) {
  if (id_.empty() || watch_.state() != ProfileWatch::State::kProfiling) return ok_status();
  const JobFindings measured = HARPE_TRY(fetch(server));
  const Result<Profile> profile = parse_profile(measured.profile, "the server's profile");
  const JobSpec spec = HARPE_TRY(training::parse_job_spec(measured.specification));
  if (!profile.ok() || !can_be_planned(*profile, spec.shape.stages)) return ok_status();
  std::filesystem::path file = arguments_.out;
  file.replace_extension(".partial.csv");
  const std::string text =
      profile_csv(*profile, "Incomplete: training ended first. " + watch_.so_far());
  const Result<KeptResult> kept =
      write_or_keep(file, [&](const std::filesystem::path& at) { return write_file(at, text); });
  if (!kept.ok()) {
    unwritten_ = text;
    return kept.error();
  }
  note(*kept);
  say("written: " + kept->at.string() + ", the incomplete profile (" + profile_summary(*profile) +
      ")");
  report_["partial_profile"] = kept->at.string();
  return ok_status();
}

void MeasureRun::end_training(ChildRunner& runner) {
  if (ended_by_us_) return;
  ended_by_us_ = true;
  say("ending the training (SIGTERM)");
  runner.send(SIGTERM);
}

/// Prints the error as `harpe run` does. Returns its exit status, 126 or 127.
Outcome MeasureRun::not_executed(const std::string& program, const ChildExit& exit) {
  const std::string why = in_quotes(program) + " cannot be executed: " + exit.failure;
  if (console_.json) {
    console_.err << error_json(Error::of(ErrorCode::kUnavailable, why)) << std::flush;
  } else {
    console_.err << painted("error:", Paint::kRed, console_.colour_err) << ' ' << why << '\n';
  }
  return Outcome{.text = {}, .json = {}, .status = exit.status};
}

/// Reports the result. Returns the command's status if it failed, otherwise that of the profile.
Outcome MeasureRun::outcome(const ChildExit& exit) {
  const bool failed = exit.status != 0 && !ended_by_us_;
  if (failed) say("the training ended with status " + std::to_string(exit.status));
  if (!complete_) {
    const bool never_began = failed && watch_.state() == ProfileWatch::State::kNoRank;
    say("there is no profile: " +
        (never_began
             ? "no rank had registered; the output of the training above shows why it failed"
             : watch_.so_far()));
    if (watch_.needs_longer() && !failed && !ended_by_us_)
      say(arguments_.server.profiling.as_is
              ? "a longer training can complete the profile"
              : "a longer training, --max-slowdown above " + shortest(arguments_.max_slowdown) +
                    "% or fewer --clocks can complete the profile");
  }
  report_["complete"] = complete_;
  if (!complete_) report_["why"] = failure_ ? failure_->text() : watch_.so_far();
  report_["command_status"] = exit.status;
  if (trouble_) report_["error"] = trouble_->text();
  if (console_.json) console_.err << json_text(report_) << std::flush;
  return Outcome{.text = {},
                 .json = {},
                 .status = failed      ? exit.status
                           : trouble_  ? exit_status(trouble_->code)
                           : complete_ ? 0
                                       : kIncomplete};
}

Result<Outcome> MeasureRun::run(const std::vector<std::string>& command) {
  // Before all processes and threads: they inherit the environment and the signal mask.
  if (!arguments_.simulation.empty()) {
    // The training may look from another folder.
    const std::filesystem::path file = std::filesystem::absolute(arguments_.simulation);
    ::setenv("HARPE_SIMULATION", file.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  ChildRunner runner;
  const std::unique_ptr<OwnServer> own = HARPE_TRY(OwnServer::start(arguments_.server));
  own->set_environment();
  ::setenv("HARPE_JOB", kJob, 0);
  if (runner.asked_to_end()) return Outcome{.text = {}, .json = {}, .status = 128 + SIGINT};
  JobServer server =
      HARPE_TRY(JobServer::open({.url = own->url(), .token_file = {}, .ca_file = {}}));
  HARPE_TRY(runner.start(command));
  std::optional<ChildExit> exit;
  while (!(exit = runner.wait(kLook))) {
    if (complete_ || failure_) continue;
    Status seen = look(server);
    if (seen.ok() && watch_.state() == ProfileWatch::State::kDone) {
      seen = conclude(server);
      const bool as_is = arguments_.server.profiling.as_is;
      if (seen.ok() && !arguments_.stop)
        say(as_is ? "training continues" : "training continues at all-max");
    }
    const Status runs = own->check();
    // A server that runs but responds late on a busy machine is tried again.
    if (runs.ok() && !seen.ok() && seen.error().code == ErrorCode::kUnavailable) continue;
    if (!seen.ok() || !runs.ok()) {
      failure_ = runs.ok() ? seen.error() : runs.error();
      say("error: " + failure_->text());
    }
    const bool hopeless =
        failure_ || (refused_ && system_clock().now() - *refused_ > kLongestRefusal);
    if (arguments_.stop && (complete_ || hopeless)) end_training(runner);
  }
  if (!exit->failure.empty()) return not_executed(command.front(), *exit);
  if (!complete_ && (!failure_ || unwritten_)) {
    unwritten_.reset();
    // Reads the ranks' last reports.
    Status seen = look(server);
    if (seen.ok()) {
      seen =
          watch_.state() == ProfileWatch::State::kDone ? conclude(server) : write_partial(server);
    }
    if (!seen.ok()) say("error: " + seen.error().text());
  }
  if (unwritten_ && !console_.json) {
    say("the profile could not be written to any folder; its text follows:");
    console_.err << *unwritten_ << std::flush;
  } else if (unwritten_) {
    report_["unwritten_profile"] = *unwritten_;
  }
  return outcome(*exit);
}

Result<Outcome> measure(const MeasureArguments& given, const std::vector<std::string>& command,
                        Console& console) {
  if (command.empty()) {
    return Error::invalid("the command is missing: harpe profile measure -- python3 train.py");
  }
  if (!(given.max_slowdown > 0)) {
    return Error::invalid("--max-slowdown must be above 0: lower clocks slow the training down");
  }
  const char* observe = std::getenv("HARPE_OBSERVE");  // NOLINT(concurrency-mt-unsafe)
  if (!given.server.profiling.as_is && observe != nullptr && std::string_view(observe) == "1") {
    return Error::invalid(
        "HARPE_OBSERVE=1 forbids setting clocks, but measuring a profile sets clocks: unset it for "
        "this command, or measure at the present clock (--as-is)");
  }
  HARPE_TRY(check_writable(given.out));
  MeasureArguments arguments = given;
  arguments.server.profiling.slowdown_limit = given.max_slowdown / 100;
  return MeasureRun(arguments, console).run(command);
}

}  // namespace

void add_profile_measure_command(Commands& commands) {
  const auto arguments = std::make_shared<MeasureArguments>();
  CLI::App& profile = *commands.root().get_subcommand("profile");
  profile.description("measure and check profiles");
  profile.footer(
      "harpe profile measure -- python3 train.py\n"
      "harpe profile check profile.csv --blocking-power 83.64");
  CLI::App& app = commands.add(
      profile, "measure",
      "measure the profile of a training while it runs\n"
      "Starts a server, an agent if none runs and the user may start one, and the training. The "
      "training runs at one clock after the other, within a limit on slowdown. When every stage "
      "has enough measurements, Harpe writes the profile and prints how to plan with it. The "
      "training then continues at all-max, or is ended (--stop). With --as-is, no clock is set "
      "and no agent is needed. The training must report to Harpe: by harpe.start, by a hook for "
      "its framework, or by the client in C++ and C. HARPE_SERVER, HARPE_TOKEN and HARPE_JOB are "
      "set for it. Progress is printed on standard error.\n"
      "The exit status is 0 if the profile is complete. It is 1 if the training ended first: then "
      "the partial profile is beside the file, as profile.partial.csv. If the training fails, it "
      "is the training's status (127 if it is not found, 126 if it cannot be executed). If the "
      "disk is full, the profile is written to another folder, which a message names, and the "
      "exit status is 2.",
      "harpe profile measure -- python3 train.py\n"
      "harpe profile measure --stop -- torchrun --nproc_per_node 4 train.py\n"
      "harpe profile measure --max-slowdown 50% --clocks 12 --out gpt3.csv -- ./train.sh\n"
      "harpe profile measure --as-is --stop -- python3 train.py\n"
      "harpe profile measure --tcp 0.0.0.0:7788 -- srun train.sh",
      [arguments, &commands](Console& console) {
        return measure(*arguments, commands.following_command(), console);
      });
  commands.let_command_follow(app, "The training to run and its arguments");
  commands.leave_output_to_command(app);
  add_text(app, "--out", "FILE", "File of the profile (default: profile.csv)", arguments->out);
  add_parsed(app, "--max-slowdown", "PERCENT",
             "Maximum slowdown of the training at any moment of the measurement (default: 20%)",
             arguments->max_slowdown, parse_percent);
  ProfilingOptions& profiling = arguments->server.profiling;
  add_parsed(app, "--clocks", "N", "Number of clocks to measure, evenly spread (default: 24)",
             profiling.most_clocks, count_within(2, 4096));
  add_parsed(app, "--lowest-clock", "MHZ", "Lowest clock to measure, MHz (default: no limit)",
             profiling.lowest_clock, [](std::string_view text) -> Result<Megahertz> {
               return Megahertz{HARPE_TRY(parse_count(text, 1, 100'000))};
             });
  app.add_flag("--stop", arguments->stop, "End the training once its profile is measured");
  app.add_flag("--as-is", profiling.as_is,
               "Set no clock and use no agent: measure each stage at the present clock of its "
               "GPUs. Such a profile is only for inspection; a plan needs several clocks")
      ->excludes("--clocks", "--lowest-clock", "--max-slowdown");
  add_text(app, "--tcp", "ADDRESS:PORT",
           "Address at which ranks of other nodes reach this command, in a trusted network; "
           "agents must already run there (default: this machine only)",
           arguments->server.tcp);
  add_text(app, "--simulate", "FILE",
           "Use simulated GPUs for all processes instead of real GPUs (also HARPE_SIMULATION)",
           arguments->simulation);
  app.get_option("--json")->description(
      "Print the result or the error as JSON on standard error (standard output is the command's)");
}

}  // namespace harpe::command
