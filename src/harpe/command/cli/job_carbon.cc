// `harpe job carbon`: control of a job by the carbon intensity of its grid.

#include <memory>
#include <optional>
#include <string>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/job_server.h"
#include "harpe/command/cli/job_view.h"
#include "harpe/command/command/command.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/options.h"
#include "harpe/training/wire/carbon_terms.h"

namespace harpe::command {
namespace {

struct CarbonArguments {
  ServerArguments server;
  std::string job;
  training::CarbonTerms terms;
  std::string deadline;
  std::optional<std::int64_t> iterations;
  bool unknown_length = false, pause = false, off = false;
  std::optional<Seconds> slack;
  std::optional<double> probability, guard_confidence;
  training::CarbonPause costs = {};
};

Status check_open_end(const CarbonArguments& arguments) {
  if (arguments.iterations)
    return Error::invalid("--unknown-length and --iterations exclude each other");
  if (!arguments.deadline.empty()) {
    return Error::invalid(
        "a run of unknown length cannot have a --deadline: give --deadline-factor");
  }
  if (!arguments.terms.deadline_factor) {
    return Error::invalid(
        "give --deadline-factor: how much slower than the fastest plan the job may run");
  }
  if (arguments.probability) {
    return Error::invalid("--probability needs a deadline; a run of unknown length has none");
  }
  if (arguments.terms.guard) {
    return Error::invalid("--guard needs a deadline; a run of unknown length has none");
  }
  return ok_status();
}

Result<training::CarbonTerms> terms_of(const CarbonArguments& arguments) {
  training::CarbonTerms terms = arguments.terms;
  if (arguments.unknown_length) {
    HARPE_TRY(check_open_end(arguments));
    terms.slack = arguments.slack.value_or(training::CarbonTerms::kUsualSlack);
  } else if (arguments.slack) {
    return Error::invalid("--slack needs --unknown-length");
  } else if (!arguments.iterations) {
    return Error::invalid(
        "to set terms, give --iterations (the number of the whole run) or --unknown-length");
  }
  terms.iterations = arguments.iterations;
  terms.probability = arguments.probability.value_or(terms.probability);
  if (arguments.guard_confidence && !terms.guard) {
    return Error::invalid("--guard-confidence needs --guard");
  }
  terms.guard_confidence = arguments.guard_confidence.value_or(terms.guard_confidence);
  if (arguments.deadline.empty() != terms.deadline_factor.has_value()) {
    return Error::invalid("give exactly one of --deadline and --deadline-factor");
  }
  if (!arguments.deadline.empty()) {
    terms.deadline = carbon::parse_utc(arguments.deadline);
    if (!terms.deadline) {
      return Error::invalid(
          "--deadline: expected a time in UTC such as 2026-12-01T06:00:00Z, got " +
          in_quotes(arguments.deadline));
    }
  }
  if (arguments.pause) {
    terms.pause = arguments.costs;
  } else if (arguments.costs != training::CarbonPause{}) {
    return Error::invalid("--stop-time, --start-time, --min-dwell and --idle-power need --pause");
  }
  return terms;
}

Result<Outcome> run_job_carbon(const CarbonArguments& arguments) {
  HARPE_TRY(job_path(arguments.job));
  CarbonArguments looks;
  looks.server = arguments.server;
  looks.job = arguments.job;
  const bool sets = arguments.iterations || arguments.unknown_length || arguments.slack ||
                    arguments.probability || arguments.guard_confidence || arguments.pause ||
                    !arguments.deadline.empty() || arguments.costs != training::CarbonPause{} ||
                    !(arguments.terms == training::CarbonTerms{});
  if (sets && arguments.off) return Error::invalid("--off excludes options that set terms");
  std::string body;
  if (sets) body = training::carbon_terms_json(HARPE_TRY(terms_of(arguments)));
  JobServer server = HARPE_TRY(JobServer::open(arguments.server));
  const char* method = sets ? "PUT" : arguments.off ? "DELETE" : "GET";
  const std::string response =
      HARPE_TRY(ask_of_job(server, arguments.job, method, "/carbon", body));
  return Outcome{.text = arguments.job + "\n" + carbon_control_view(response),
                 .json = indented(response)};
}

template <class Value, class Read>
auto optional_of(Read read) {
  return [read](std::string_view text) -> Result<std::optional<Value>> {
    return std::optional<Value>(HARPE_TRY(read(text)));
  };
}

Result<std::int64_t> parse_iterations(std::string_view text) {
  const auto number = parse_integer(text);
  if (!number || *number < 0) {
    return Error::invalid("expected a whole number, got " + in_quotes(text));
  }
  return *number;
}

/// Parses a percentage. Returns it as a fraction.
Result<double> parse_part(std::string_view text) {
  const double part = HARPE_TRY(parse_percent(text)) / 100;
  if (part > 1) return Error::invalid("expected at most 100 %, got " + in_quotes(text));
  return part;
}

Result<double> parse_positive(std::string_view text) {
  const auto number = parse_number(text);
  if (!number || !(*number > 0)) {
    return Error::invalid("expected a number above 0, got " + in_quotes(text));
  }
  return *number;
}

void add_pause_options(CLI::App& app, CarbonArguments& arguments) {
  const std::string group = "Pauses";
  training::CarbonPause& costs = arguments.costs;
  app.add_flag("--pause", arguments.pause, "Allow requests to pause training")->group(group);
  add_parsed(app, "--stop-time", "TIME", "Time to stop: a checkpoint (default 1min)", costs.stop,
             parse_seconds)
      ->group(group);
  add_parsed(app, "--start-time", "TIME", "Time to restart after a pause (default 3min)",
             costs.start, parse_seconds)
      ->group(group);
  add_parsed(app, "--min-dwell", "TIME", "Least length of a pause or a run (default 1h)",
             costs.min_dwell, parse_seconds)
      ->group(group);
  add_parsed(app, "--idle-power", "WATTS",
             "Power of a GPU held during a pause, W (default: a fifth of its usual power, an "
             "assumption)",
             costs.idle_power, optional_of<Watts>(parse_watts))
      ->group(group);
}

}  // namespace

void add_job_carbon_command(Commands& commands, CLI::App& job) {
  const auto arguments = std::make_shared<CarbonArguments>();
  training::CarbonTerms& terms = arguments->terms;
  CLI::App& app = commands.add(
      job, "carbon",
      "adapt a job to the carbon intensity of its grid\n"
      "With options, sets the terms of carbon control; without, shows the present decision and "
      "the expected results. Each hour, the job moves to another point of its frontier, or "
      "requests a pause of the training, so that all iterations are done by the deadline with the "
      "least CO2; or, if their number is unknown, so that it stays within its slack. harpe serve "
      "--carbon defines the sources. See docs/carbon.md.",
      "harpe job carbon gpt3 --zone DE --iterations 50000 \\\n"
      "    --deadline-factor 1.25 --pause\n"
      "harpe job carbon gpt3 --unknown-length --deadline-factor 1.25 --pause\n"
      "harpe job carbon gpt3\n"
      "harpe job carbon gpt3 --off",
      [arguments](Console&) { return run_job_carbon(*arguments); });
  add_job_argument(app, arguments->job);
  add_text(app, "--source", "NAME", "Source that the server offers, such as electricity-maps:DE",
           terms.source);
  add_text(app, "--zone", "ZONE", "Zone of the source, instead of --source", terms.zone);
  add_parsed(app, "--iterations", "COUNT", "Iterations of the whole run", arguments->iterations,
             optional_of<std::int64_t>(parse_iterations));
  add_parsed(app, "--iterations-done", "COUNT",
             "Iterations done so far (default: as ranks have counted)", terms.iterations_done,
             optional_of<std::int64_t>(parse_iterations));
  add_text(app, "--deadline", "TIME", "Deadline in UTC, such as 2026-12-01T06:00:00Z",
           arguments->deadline);
  add_parsed(app, "--deadline-factor", "FACTOR",
             "Time allowed from now on, as a multiple of the remaining time at the fastest plan",
             terms.deadline_factor, optional_of<double>(parse_positive));
  add_parsed(app, "--probability", "PERCENT", "Probability of meeting the deadline (default: 95%)",
             arguments->probability, optional_of<double>(parse_part));
  app.add_flag("--unknown-length", arguments->unknown_length,
               "The number of iterations is unknown: the job may run slower by the deadline "
               "factor and, in addition, be behind by the slack");
  add_parsed(app, "--slack", "TIME", "Allowed lag for --unknown-length (default 12h)",
             arguments->slack, optional_of<Seconds>(parse_seconds));
  add_parsed(app, "--guard", "PERCENT",
             "Limit on the emissions above one steady pace that a pause or a delay may risk "
             "(default: no guard)",
             terms.guard, optional_of<double>(parse_part));
  add_parsed(app, "--guard-confidence", "PERCENT",
             "Share of past forecast errors for which --guard holds (default: 99%); 100%: any "
             "intensity in the range of the forecast",
             arguments->guard_confidence, optional_of<double>(parse_part));
  add_text(app, "--embodied", "KG/LIFETIME", "Embodied emissions of a GPU, such as 150kg/5y",
           terms.embodied);
  add_parsed(app, "--host-power", "WATTS", "Host power per GPU while the job runs, W",
             terms.host_power, parse_watts);
  add_pause_options(app, *arguments);
  app.add_flag("--off", arguments->off, "Return to the job's objective");
  add_server_options(app, arguments->server);
}

}  // namespace harpe::command
