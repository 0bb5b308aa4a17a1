#include "harpe/command/lab_cli/emulate_options.h"

#include <algorithm>
#include <array>
#include <limits>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/command/option_file.h"
#include "harpe/command/command/options.h"
#include "harpe/command/plan_cli/cluster_options.h"
#include "harpe/plan/policy/plan_choice.h"

namespace harpe::command {
namespace {

/// Returns false for keys that an option of this command replaces, and for keys of the files and
/// searches of `harpe plan` alone.
bool is_offered(const JobKey& key) {
  constexpr std::array<std::string_view, 10> kLeftOut = {
      "straggler",   "power-cap",      "gpu",      "out", "points", "certificate", "whole-trace",
      "search-time", "search-windows", "min-dwell"};
  return std::ranges::find(kLeftOut, key.name) == kLeftOut.end();
}

Result<double> parse_slowdown(std::string_view text) {
  if (!text.empty() && text.back() == '%') return 1 + HARPE_TRY(parse_percent(text)) / 100;
  const Result<TimeOrFactor> value = parse_time_or_factor(text);
  if (value.ok() && value->factor) return *value->factor;
  return Error::invalid("expected a slowdown, such as 20% or 1.2x, found " + in_quotes(text));
}

/// Reads one "key=value" of a straggler. `every` is the time from one start to the next.
Status read_part(std::string_view part, lab::RecurringStraggler& straggler, Seconds& every) {
  const std::size_t equals = part.find('=');
  const std::string_view key = trim(part.substr(0, equals));
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : trim(part.substr(equals + 1));
  if (key == "random" && equals == std::string_view::npos) {
    straggler.is_random = true;
  } else if (key == "pipeline") {
    straggler.pipeline = HARPE_TRY(parse_count(value, 0, std::numeric_limits<int>::max()));
  } else if (key == "every") {
    every = HARPE_TRY(parse_seconds(value));
  } else if (key == "for") {
    straggler.lasts = HARPE_TRY(parse_seconds(value));
  } else {
    return Error::invalid("expected pipeline=NUMBER, every=TIME, for=TIME or random, found " +
                          in_quotes(part));
  }
  return ok_status();
}

/// Reads the parts of a straggler after the first one.
Status read_parts(const std::vector<std::string>& parts, std::string_view text,
                  lab::RecurringStraggler& straggler) {
  Seconds every{0};
  std::vector<std::string> keys;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    HARPE_TRY(read_part(parts[i], straggler, every));
    keys.push_back(parts[i].substr(0, parts[i].find('=')));
    if (std::ranges::find(keys, keys.back()) != keys.end() - 1)
      return Error::invalid(keys.back() + " is given twice, found " + in_quotes(text));
  }
  if ((every > Seconds{0}) != (straggler.lasts > Seconds{0}) ||
      (straggler.is_random && every == Seconds{0})) {
    return Error::invalid("a recurring straggler needs every=TIME and for=TIME above 0, found " +
                          in_quotes(text));
  }
  if (every > Seconds{0} && straggler.lasts >= every)
    return Error::invalid("for=TIME must be less than every=TIME, found " + in_quotes(text));
  straggler.between = every - straggler.lasts;
  return ok_status();
}

Result<std::int64_t> parse_whole(std::string_view text, std::int64_t low, std::int64_t high) {
  const auto value = parse_integer(text);
  if (value && *value >= low && *value <= high) return *value;
  return Error::invalid("expected a whole number from " + std::to_string(low) + " to " +
                        std::to_string(high) + ", found " + in_quotes(text));
}

Result<double> parse_deviation(std::string_view text) {
  return HARPE_TRY(parse_percent(text)) / 100;
}

void add_cluster_options(CLI::App& app, EmulateArguments& arguments) {
  const OptionGroup group(app, "Emulated cluster");
  constexpr std::int64_t kMost = 100'000'000;
  add_parsed(
      app, "--iterations", "N", "Iterations to emulate (default: as many as in --hours, a month)",
      arguments.iterations, [](const std::string& text) { return parse_whole(text, 1, kMost); });
  add_parsed(app, "--tokens", "N",
             "Tokens per iteration, all pipelines together: results are also given per token",
             arguments.tokens, [](const std::string& text) -> Result<double> {
               const auto value = parse_number(text);
               if (value && *value >= 1 && *value <= 1e15) return *value;
               return Error::invalid("expected a number of tokens, found " + in_quotes(text));
             });
  add_text(
      app, "--gpu", "MODEL",
      "GPU whose blocking power is used if --blocking-power is not given (see harpe synth --list)",
      arguments.gpu);
  add_parsed(app, "--overhead", "SECONDS",
             "Time at the end of each iteration in which all GPUs wait, s: gradient reduction, "
             "optimizer, logging (default 0)",
             arguments.overhead, parse_seconds);
  add_parsed(app, "--noise", "PERCENT",
             "Standard deviation of time and energy of an instruction, % (default 0)",
             arguments.noise, parse_deviation);
  add_parsed(app, "--power-spread", "PERCENT",
             "Standard deviation of power between nodes, % (default 0.7, measured over 64 nodes)",
             arguments.power_spread, parse_deviation);
  add_parsed(app, "--seed", "N", "Seed of all random numbers (default 1)", arguments.seed,
             [](const std::string& text) -> Result<std::uint64_t> {
               return static_cast<std::uint64_t>(
                   HARPE_TRY(parse_whole(text, 0, std::numeric_limits<std::int64_t>::max())));
             });
  add_parsed(app, "--jobs", "N", "Processors to use; results do not change (default 1)",
             arguments.jobs, count_within(1, 1024));
  app.add_flag("--through-job", arguments.through_job,
               "Also train with the decisions of a real job, the state machine of a server: shows "
               "when the job detects stragglers, and the error of the saving that it reports. "
               "With --iterations (default 500), --straggler, --noise and --overhead");
}

/// Adds an option that can be given several times.
void add_stragglers(CLI::App& app, const std::string& name, const std::string& type,
                    const std::string& help, std::vector<lab::RecurringStraggler>& stragglers,
                    Result<lab::RecurringStraggler> (*parse)(std::string_view)) {
  app.add_option_function<std::vector<std::string>>(
         name,
         [name, parse, &stragglers](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             auto straggler = parse(text);
             if (!straggler.ok()) throw CLI::ValidationError(name, straggler.error().text());
             stragglers.push_back(*straggler);
           }
         },
         help)
      ->type_name(type)
      ->allow_extra_args(false);
}

void add_straggler_options(CLI::App& app, EmulateArguments& arguments) {
  add_stragglers(app, "--straggler", "SLOWDOWN[,...]",
                 "A slow pipeline: 20% all the time; 20%,every=3d,for=1d on every third day, "
                 "another pipeline each time; with ,random at random times with that mean; with "
                 ",pipeline=3 always pipeline 3. May be given several times",
                 arguments.stragglers, parse_straggler);
  add_stragglers(
      app, "--throttle", "CLOCK[,...]",
      "A pipeline whose GPUs are too hot for a clock above CLOCK, such as 1260MHz, even if a "
      "higher one is requested; times and pipeline as for --straggler. May be given several times",
      arguments.throttles, parse_throttle);
  add_parsed(app, "--power-limit", "WATTS",
             "Power limit of each GPU, W: an instruction that draws more gets the time and energy "
             "of the highest clock within the limit. Plans include the limit",
             arguments.power_limit, [](const std::string& text) -> Result<Watts> {
               const Watts limit = HARPE_TRY(parse_watts(text));
               if (limit > Watts{0}) return limit;
               return Error::invalid("expected more than 0 W, found " + in_quotes(text));
             });
}

void add_event_options(CLI::App& app, EmulateArguments& arguments) {
  const OptionGroup group(app, "Stragglers, caps and failures");
  add_straggler_options(app, arguments);
  add_text(app, "--straggler-trace", "FILE",
           "CSV file of stragglers: pipeline,begin_iteration,end_iteration,slowdown, or with "
           "begin_s,end_s",
           arguments.straggler_trace);
  add_parsed(app, "--reaction", "N",
             "Slow iterations of a straggler in a row before the other pipelines slow down "
             "(default 8, as in a job)",
             arguments.reaction, count_within(0, 1000));
  add_text(app, "--power-cap", "WATTS|FILE",
           "Highest average power of all GPUs together, W, or a CSV file of it: time_s,watts",
           arguments.power_cap);
  add_parsed(app, "--checkpoint-every", "N", "Iterations between checkpoints (default: none)",
             arguments.checkpoint_every,
             [](const std::string& text) { return parse_whole(text, 1, 1'000'000'000); });
  add_parsed(app, "--checkpoint-time", "SECONDS", "Time of a checkpoint, s (default 0)",
             arguments.checkpoint_time, parse_seconds);
  add_parsed(app, "--failure-every", "TIME",
             "Mean time between failures of the whole cluster, s, or with a unit, such as 12h; the "
             "cluster restarts from its last checkpoint (default: none)",
             arguments.failure_every, parse_seconds);
  add_parsed(app, "--restart-time", "SECONDS", "Time of a restart, s (default 0)",
             arguments.restart_time, parse_seconds);
}

void add_output_options(CLI::App& app, EmulateArguments& arguments) {
  const OptionGroup group(app, "Output");
  constexpr Seconds kMostRecorded{3600};
  add_text(app, "--out", "DIR",
           "Folder for emulation.html, a page for decision makers; emulation.json; iterations.csv; "
           "power.csv, power.svg and spectrum.csv, the power over time",
           arguments.out);
  add_parsed(app, "--power-time", "SECONDS",
             "Time from the start that power.csv covers, in steps of 10 ms, s (default: three "
             "iterations, at least 180, at most 600)",
             arguments.power_time, [kMostRecorded](const std::string& text) -> Result<Seconds> {
               const Seconds time = HARPE_TRY(parse_seconds(text));
               if (time > Seconds{0} && time <= kMostRecorded) return time;
               return Error::invalid("expected more than 0 s and at most an hour, found " +
                                     in_quotes(text));
             });
  add_parsed(app, "--power-pipelines", "N",
             "Pipelines whose nodes and GPUs are in power.csv beside the job, 0 to 64 (default 1)",
             arguments.power_pipelines, count_within(0, 64));
  add_parsed(app, "--power-format", "table|parquet|catalogue|openg2g",
             "Layout of the power over time. table, parquet: the job, nodes and GPUs in power.csv "
             "or power.parquet; catalogue: power.csv with one row for each step and GPU, and "
             "metadata.json, for a catalogue of power traces; openg2g: power.csv of the mean GPU, "
             "for OpenG2G's training load (default table)",
             arguments.power_format, [](const std::string& text) -> Result<PowerFormat> {
               if (text == "table") return PowerFormat::kTable;
               if (text == "parquet") return PowerFormat::kParquet;
               if (text == "catalogue") return PowerFormat::kCatalogue;
               if (text == "openg2g") return PowerFormat::kOpenG2g;
               return Error::invalid("expected table, parquet, catalogue or openg2g, found " +
                                     in_quotes(text));
             });
}

}  // namespace

Result<lab::RecurringStraggler> parse_straggler(std::string_view text) {
  lab::RecurringStraggler straggler;
  const std::vector<std::string> parts = split_list(text);
  straggler.slowdown = HARPE_TRY(parse_slowdown(parts.empty() ? "" : parts.front()));
  if (!(straggler.slowdown > 1 && straggler.slowdown <= plan::kMostStragglerFactor)) {
    return Error::invalid("a straggler is slower by more than 0 % and at most " +
                          shortest(plan::kMostStragglerFactor) + "x, found " + in_quotes(text));
  }
  HARPE_TRY(read_parts(parts, text, straggler));
  return straggler;
}

Result<lab::RecurringStraggler> parse_throttle(std::string_view text) {
  lab::RecurringStraggler straggler{.slowdown = 1};
  const std::vector<std::string> parts = split_list(text);
  std::string_view clock = parts.empty() ? std::string_view() : trim(parts.front());
  if (clock.ends_with("MHz")) clock = trim(clock.substr(0, clock.size() - 3));
  constexpr int kHighest = 100'000;
  const Result<int> megahertz = parse_count(clock, 1, kHighest);
  if (!megahertz.ok()) {
    return Error::invalid("expected the highest clock of the GPUs, such as 1260MHz, found " +
                          in_quotes(text));
  }
  straggler.held_to = Megahertz{*megahertz};
  HARPE_TRY(read_parts(parts, text, straggler));
  return straggler;
}

void add_emulate_options(CLI::App& app, const std::shared_ptr<EmulateArguments>& arguments) {
  add_cluster_options(app, *arguments);
  add_event_options(app, *arguments);
  add_job_arguments(app, arguments, is_offered);
  add_config_option(app, arguments->config)->group("Arguments");
  add_output_options(app, *arguments);
}

}  // namespace harpe::command
