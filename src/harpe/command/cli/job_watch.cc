// `harpe job watch`: on a terminal a view that is redrawn, otherwise a line for each event.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "harpe/command/cli/job_dashboard.h"
#include "harpe/command/cli/job_server.h"
#include "harpe/command/cli/job_view.h"
#include "harpe/command/cli/live_terminal.h"
#include "harpe/command/cli/status_fields.h"
#include "harpe/command/command/command.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/options.h"
#include "harpe/device/hw/system_clock.h"

namespace harpe::command {
namespace {

constexpr std::chrono::milliseconds kRetryStep{100};
constexpr int kStepsOfRetry = 10;
constexpr Seconds kBetweenLooks{1};
constexpr std::size_t kKeptEvents = 50;

struct WatchArguments {
  ServerArguments server;
  std::string job;
  bool events = false;
};

/// Prints events and changes of phase until Ctrl-C or the end of the job. Waits for a job that does
/// not exist yet, and reconnects if its server restarts or another server takes the job. Returns
/// the end of a job that has ended: the stream would only repeat its last phase.
Result<Outcome> follow_events(JobServer& server, const WatchArguments& arguments,
                              const std::string& path, InterruptScope& interrupts,
                              Console& console) {
  bool heard = false, lost = false, deleted = false;
  for (;;) {
    const Result<std::string> status = server.ask_text("GET", path);
    if (status.ok()) {
      std::string end = end_of_job(*status);
      if (!end.empty()) return Outcome{.text = std::move(end), .json = *status + '\n'};
    }
    const Status followed = server.follow(
        path + "/events",
        [&](std::string_view event, std::string_view data) {
          heard = true;
          lost = false;
          const std::string line =
              console.json ? std::string(data) : event_line(event, data, time_of_day());
          if (!line.empty()) console.out << line << '\n' << std::flush;
          deleted = event == "phase" && phase_of_event(data) == "deleted";
          return !deleted;
        },
        [&] { return interrupts.interrupted(); });
    if (followed.ok()) return Outcome{};
    const bool is_to_come = !heard && followed.error().code == ErrorCode::kNotFound;
    const bool is_away = (heard || lost) && followed.error().code == ErrorCode::kUnavailable;
    if (!is_to_come && !is_away) return followed.error();
    if (!std::exchange(lost, true)) {
      console.err << with_near_job(followed.error(), server, arguments.job).text()
                  << "; trying again until Ctrl-C\n"
                  << std::flush;
    }
    for (int step = 0; step < kStepsOfRetry && !interrupts.interrupted(); ++step) {
      std::this_thread::sleep_for(kRetryStep);
    }
  }
}

/// The newest entries of a job's log, which the server returns in pages of a thousand.
class LogTail {
 public:
  Status read(JobServer& server, const std::string& path) {
    for (;;) {
      const Json page =
          parsed(HARPE_TRY(server.ask_text("GET", path + "/log?after=" + std::to_string(newest_))));
      const Json& events = member(page, "events");
      if (!events.is_array() || events.empty()) return ok_status();
      const std::int64_t before = newest_;
      for (const Json& event : events) {
        newest_ = static_cast<std::int64_t>(number_in(event, "sequence").value_or(0));
        events_.push_back(event);
      }
      if (newest_ <= before) return ok_status();
      if (events_.size() > kKeptEvents)
        events_.erase(events_.begin(), events_.end() - static_cast<std::ptrdiff_t>(kKeptEvents));
    }
  }
  std::string text() const { return Json{{"events", events_}}.dump(); }

 private:
  Json events_ = Json::array();
  std::int64_t newest_ = 0;
};

/// Waits until the next look. Returns true if the user or a signal ends the view before.
bool is_left(LiveTerminal& view, const std::function<void()>& draw) {
  const Instant until = system_clock().now() + kBetweenLooks;
  for (;;) {
    switch (view.wait(until - system_clock().now())) {
      case LiveTerminal::Event::kTime:
        return false;
      case LiveTerminal::Event::kEnd:
        return true;
      case LiveTerminal::Event::kResized:
        draw();
        break;
      case LiveTerminal::Event::kKey:
        if (view.key().character == 'q') return true;
        break;
    }
  }
}

/// Shows the newest status and log on a terminal until q, Ctrl-C, or the removal of the job. The
/// last view stays on the terminal.
Result<Outcome> show_dashboard(const WatchArguments& arguments, const std::string& path,
                               Console& console) {
  LiveTerminal view(console);
  JobServer server = HARPE_TRY(JobServer::open(arguments.server));
  JobTrend trend;
  LogTail log;
  DashboardLook look;
  std::string unknown;  // message for a job that does not exist yet
  for (;;) {
    Result<std::string> status = server.ask_text("GET", path);
    const Status seen = status.ok() ? log.read(server, path) : Status(status.error());
    if (seen.ok()) {
      look.status = *std::move(status);
      look.log = log.text();
      look.trouble.clear();
      trend.add(look.status, system_clock().now());
    } else if (seen.error().code == ErrorCode::kNotFound && !look.status.empty()) {
      return Outcome{.text = "the job was removed\n", .json = {}};
    } else if (seen.error().code == ErrorCode::kNotFound) {
      // Similar job names are looked up once, not each second.
      if (unknown.empty()) unknown = with_near_job(seen.error(), server, arguments.job).text();
      look.trouble = unknown + "; trying again";
    } else if (seen.error().code == ErrorCode::kUnavailable &&
               !(look.status.empty() && look.trouble.empty())) {
      look.trouble = seen.error().text() + "; trying again";
    } else {
      return seen.error();
    }
    look.time_of_day = time_of_day();
    const auto draw = [&] {
      const TerminalSize size = terminal_size();
      view.draw(job_dashboard(look, trend, size.columns, size.lines, console.colour_out));
    };
    draw();
    if (is_left(view, draw)) {
      view.leave(true);
      return Outcome{};
    }
  }
}

Result<Outcome> watch_job(const WatchArguments& arguments, Console& console) {
  const std::string path = HARPE_TRY(job_path(arguments.job));
  if (console.out_is_terminal && !console.json && !arguments.events) {
    return show_dashboard(arguments, path, console);
  }
  InterruptScope interrupts;
  JobServer server = HARPE_TRY(JobServer::open(arguments.server));
  return follow_events(server, arguments, path, interrupts, console);
}

}  // namespace

void add_job_watch_command(Commands& commands, CLI::App& job) {
  const auto given = std::make_shared<WatchArguments>();
  CLI::App& watch = commands.add(
      job, "watch",
      "watch a job\n"
      "On a terminal, updates a view each second: savings, phase, iteration time, a bar for each "
      "pipeline, the clocks of each stage, power, stragglers, plans, and the last events. "
      "Elsewhere, and with --events, prints a line for each event; with --json, one document per "
      "line. Ends at q, Ctrl-C, or when the job is removed. Waits for a job that does not exist "
      "yet, and continues when the server is available again. If the job has ended, prints only "
      "how it ended (except on a terminal).",
      "harpe job watch gpt3\n"
      "harpe job watch gpt3 --events | tee gpt3.log",
      [given](Console& console) { return watch_job(*given, console); });
  add_job_argument(watch, given->job);
  add_server_options(watch, given->server);
  watch.add_flag("--events", given->events, "Print a line for each event, on a terminal, too");
}

}  // namespace harpe::command
