#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/quantity_text.h"
#include "harpe/base/result.h"
#include "harpe/base/text.h"
#include "harpe/command/command/on_all_processors.h"
#include "harpe/command/command/options.h"
#include "harpe/command/input/input_file.h"
#include "harpe/command/lab_cli/lab_cli.h"
#include "harpe/command/lab_cli/pace_choices.h"
#include "harpe/command/lab_cli/series_options.h"
#include "harpe/command/lab_cli/simulation_view.h"
#include "harpe/lab/carbon_replay/carbon_simulation.h"

namespace harpe::command {
namespace {

// Steps of the golden ratio spread any number of starts evenly over the year and over the hours of
// the day.
constexpr double kStartStep = 0.6180339887498949;
// Enough for a first message; these starts take less time than the forecasts.
constexpr std::size_t kForeseenStarts = 20;

std::size_t start_of(std::size_t i, std::size_t starts) {
  const double turns = kStartStep * static_cast<double>(i);
  const auto start =
      static_cast<std::size_t>((turns - std::floor(turns)) * static_cast<double>(starts));
  return std::min(start, starts - 1);
}

/// \param run  returns the outcome of a start, by its number; called by several threads
template <class Run>
auto outcomes_of(std::size_t count, Run run, const std::function<void(double)>& progress) {
  std::vector<decltype(run(std::size_t{}))> outcomes(count);
  on_all_processors(count, [&](std::size_t i) { outcomes[i] = run(i); }, progress);
  return outcomes;
}

Seconds fastest_of(const std::vector<carbon::PieceCost>& choices) {
  return std::ranges::min(choices, {}, &carbon::PieceCost::time).time;
}

/// Returns the outcomes of `count` starts, the first of which are spread as evenly as all of them.
/// \param progress  called with the fraction done, on the calling thread; may be empty
std::vector<lab::StartOutcome> run_starts(const lab::CarbonSimulation& simulation,
                                          std::size_t count,
                                          const std::function<void(double)>& progress) {
  const std::size_t starts = simulation.starts();
  return outcomes_of(
      count, [&](std::size_t i) { return simulation.at(start_of(i, starts)); }, progress);
}

/// Returns the prospect of the first of these starts, at most 20, without a forecast. For prices
/// (`is_price`), shares are of the mean cost.
Prospect foresee(const lab::CarbonSimulation& simulation, std::size_t count, bool is_price) {
  const std::size_t starts = simulation.starts();
  const auto outcomes =
      outcomes_of(std::min(count, kForeseenStarts),
                  [&](std::size_t i) { return simulation.foreseen(start_of(i, starts)); }, {});
  Prospect prospect{.starts = outcomes.size()};
  double cost = 0;
  for (const lab::ForeseenOutcome& one : outcomes) cost += std::abs(one.best_static.grams);
  cost = std::max(1e-12, cost / static_cast<double>(outcomes.size()));
  for (const lab::ForeseenOutcome& one : outcomes) {
    const double base = is_price ? cost : one.best_static.grams;
    prospect.bound += (one.best_static.grams - one.bound) / base;
  }
  prospect.bound /= static_cast<double>(outcomes.size());
  return prospect;
}

/// Returns the job, with the same work and deadline, under another control. Fails if the fastest of
/// `choices` cannot meet the deadline, or if one of them is not above 0.
/// \param name  of the control, for messages
Result<lab::CarbonJob> under_control(const lab::CarbonJob& job,
                                     const std::vector<carbon::PieceCost>& choices,
                                     const std::string& name) {
  HARPE_TRY(carbon::PaceCurve::make(choices, job.host_power));
  const Seconds own = fastest_of(job.choices), other = fastest_of(choices);
  lab::CarbonJob changed = job;
  changed.choices = choices;
  changed.work = job.work * (other / own);
  changed.deadline_factor = job.deadline_factor * (own / other);
  constexpr double kRounding = 1e-9;
  if (changed.deadline_factor < 1 - kRounding) {
    return Error::invalid(name + ": its fastest choice takes " + shortest(other / own, 4) +
                          " times as long as the job's own, beyond a deadline factor of " +
                          shortest(job.deadline_factor, 4));
  }
  changed.deadline_factor = std::max(1.0, changed.deadline_factor);
  return changed;
}

// Power during a pause if it is not given, as a share of the fastest choice's power.
constexpr double kAssumedIdleShare = 0.2;
constexpr int kMostStarts = 100'000;

struct SimulateArguments {
  std::string file, train, frontier, plan_table, profile;
  std::vector<std::string> compared;  // "one-setting", files
  SeriesArguments series;
  ExogenousArguments exogenous;
  bool is_unknown_length = false;
  Seconds slack{12 * 3600.0};
  double error_share = 1;
  double hours = 24;
  lab::CarbonJob job{.deadline_factor = 1.25,
                     .pause = {.stop = {60}, .start = {180}, .min_dwell = {3600}}};
  std::optional<Watts> idle_power, chase_power;
  std::optional<EmbodiedCarbon> embodied;
  int devices = 1, starts = 100;
  bool shows_chase = false;
};

Result<PaceChoices> read_choices(const SimulateArguments& arguments) {
  std::optional<std::string> file;
  for (const std::string* given :
       {&arguments.frontier, &arguments.plan_table, &arguments.profile}) {
    if (given->empty()) continue;
    if (file) return Error::invalid("give one of --frontier, --plan-table and --profile");
    file = *given;
  }
  if (!file) {
    return Error::invalid(
        "the choices of the job are missing: give --frontier frontier.json, --plan-table or "
        "--profile of power limits");
  }
  return parse_pace_choices(HARPE_TRY(read_input_file(*file)), *file);
}

Result<lab::CarbonJob> job_of(const SimulateArguments& arguments, const PaceChoices& choices) {
  lab::CarbonJob job = arguments.job;
  job.choices = choices.pieces;
  job.all_max = choices.all_max;
  job.work = {arguments.hours * 3600};
  const carbon::PaceCurve curve = HARPE_TRY(carbon::PaceCurve::make(job.choices, job.host_power));
  job.pause.idle_power = arguments.idle_power.value_or(curve.fastest().power * kAssumedIdleShare);
  job.chase.highest_power = arguments.chase_power.value_or(curve.fastest().power - job.host_power);
  if (arguments.embodied) {
    job.embodied =
        arguments.devices * arguments.embodied->mass.value / arguments.embodied->lifetime.value;
  }
  if (arguments.is_unknown_length) job.slack = arguments.slack;
  if (arguments.series.price) {
    job.unit_of_energy = Joules{3.6e9};
    if (arguments.embodied)
      return Error::invalid("emissions and money cannot be added: leave out --embodied");
    if (job.guard && job.guard_share == 0) {
      return Error::invalid("prices have no fixed range: a guard needs a confidence below 100 %");
    }
  }
  return job;
}

struct ComparedJob {
  std::string name;
  lab::CarbonJob job;
};

/// Returns the job under each control to compare with.
Result<std::vector<ComparedJob>> compared_jobs(const SimulateArguments& arguments,
                                               const lab::CarbonJob& job,
                                               const PaceChoices& choices) {
  std::vector<ComparedJob> jobs;
  for (const std::string& control : arguments.compared) {
    if (control == "one-setting") {
      if (choices.one_setting.empty()) {
        return Error::invalid(
            "a " + choices.what +
            " without \"one_setting\" has no time and energy of one setting: give "
            "a --frontier that this version of harpe plan --out wrote");
      }
      jobs.push_back(
          {"one setting", HARPE_TRY(under_control(job, choices.one_setting, "one setting"))});
      continue;
    }
    const std::string text = HARPE_TRY(read_input_file(control));
    const PaceChoices other = HARPE_TRY(parse_pace_choices(text, control));
    jobs.push_back({control, HARPE_TRY(under_control(job, other.pieces, control))});
  }
  return jobs;
}

std::string nothing_to_gain(const Prospect& prospect, bool is_price) {
  return "there is nothing to gain here: over " + counted(prospect.starts, "start") +
         ", with any forecast, plans " + (is_price ? "pay" : "emit") + " at most " +
         percent_text(100 * prospect.bound, 2) + " less than one steady pace";
}

Result<Outcome> run_simulate(SimulateArguments arguments, Console& console) {
  HARPE_TRY(take_price_heading(arguments.file, arguments.series));
  const PaceChoices choices = HARPE_TRY(read_choices(arguments));
  const carbon::IntensitySeries series = HARPE_TRY(read_series(arguments.file, arguments.series));
  std::optional<carbon::IntensitySeries> earlier;
  if (!arguments.train.empty()) {
    earlier = HARPE_TRY(read_series(arguments.train, arguments.series));
  }
  const lab::CarbonJob job = HARPE_TRY(job_of(arguments, choices));
  const carbon::IntensitySeries* before = earlier ? &*earlier : nullptr;
  const auto exogenous = HARPE_TRY(read_exogenous(arguments.exogenous, series, before));
  const carbon::IntensitySeries filled = carbon::with_gaps_filled(series);
  const bool is_price = arguments.series.price.has_value();
  const lab::CarbonSimulation known = HARPE_TRY(lab::CarbonSimulation::make(job, filled, nullptr));
  const std::vector<ComparedJob> compared = HARPE_TRY(compared_jobs(arguments, job, choices));
  const std::size_t count = std::min(static_cast<std::size_t>(arguments.starts), known.starts());
  const Prospect prospect = foresee(known, count, is_price);
  if (prospect.bound < kWorthIt) console.warn(nothing_to_gain(prospect, is_price));

  ProgressBar progress(console, "simulating");
  lab::ForecastTable forecasts = HARPE_TRY(lab::ForecastTable::make(
      series, before, [&](double share) { progress.update(0.2 * share); },
      exogenous ? &*exogenous : nullptr));
  forecasts.set_error_share(arguments.error_share);
  double done = 0.2;
  const double part = 0.8 / static_cast<double>(1 + compared.size());
  const auto outcomes_of =
      [&](const lab::CarbonJob& one) -> Result<std::vector<lab::StartOutcome>> {
    const auto simulation = HARPE_TRY(lab::CarbonSimulation::make(one, filled, &forecasts));
    const double before_it = std::exchange(done, done + part);
    return run_starts(simulation, count,
                      [&](double share) { progress.update(before_it + part * share); });
  };
  SimulationView view{.series = arguments.file,
                      .choices = choices.what,
                      .kind = std::string(text_of(series.kind)),
                      .money = is_price ? arguments.series.price->money : "",
                      .job = job,
                      .idle_power_is_assumed = !arguments.idle_power,
                      .shows_chase = arguments.shows_chase,
                      .error_share = arguments.error_share,
                      .outcomes = HARPE_TRY(outcomes_of(job)),
                      .prospect = prospect};
  for (const ComparedJob& other : compared) {
    view.controls.push_back(
        {other.name, other.job.choices.size(), HARPE_TRY(outcomes_of(other.job))});
  }
  return Outcome{.text = simulation_text(view), .json = simulation_json(view)};
}

void add_job_options(CLI::App& app, SimulateArguments& arguments) {
  const OptionGroup group(app, "Job");
  add_text(app, "--frontier", "FILE.json", "Frontier of the job, from harpe plan --out",
           arguments.frontier);
  add_text(app, "--plan-table", "FILE.json", "Table of plans of a server's job",
           arguments.plan_table);
  add_text(app, "--profile", "FILE.json",
           "Profile of power limits, of Zeus or harpe run --optimize", arguments.profile);
  app.add_option("--compare", arguments.compared,
                 "Also simulate the job under other controls, to show the share of each in the "
                 "gain: one-setting (one clock for all computations, from --frontier), or files of "
                 "the same work in the format of --frontier, --plan-table or --profile")
      ->type_name("one-setting|FILE.json")
      ->allow_extra_args(false);
  app.add_option("--hours", arguments.hours, "Hours at the fastest pace (default 24)")
      ->type_name("H")
      ->check(CLI::Range(0.01, 1e5));
  app.add_option("--deadline-factor", arguments.job.deadline_factor,
                 "Deadline divided by --hours (default 1.25)")
      ->type_name("D")
      ->check(CLI::Range(1.0, 100.0));
  app.add_flag("--pause", arguments.job.pause.allowed, "Allow the job to pause");
  add_parsed(app, "--idle-power", "WATTS",
             "Power of the machines held during a pause (default: a fifth of the power at the "
             "fastest pace, an assumption)",
             arguments.idle_power, parse_watts);
  add_parsed(app, "--stop-time", "TIME", "Time to stop: a checkpoint (default 1min)",
             arguments.job.pause.stop, parse_seconds);
  add_parsed(app, "--start-time", "TIME", "Time to restart after a pause (default 3min)",
             arguments.job.pause.start, parse_seconds);
  add_parsed(app, "--min-dwell", "TIME", "Least length of a pause or a run (default 1h)",
             arguments.job.pause.min_dwell, parse_seconds);
  add_parsed(app, "--host-power", "WATTS",
             "Power of the nodes without their GPUs while the job runs (default 0)",
             arguments.job.host_power, parse_watts);
  add_parsed(
      app, "--embodied", "KG/LIFETIME",
      "Emissions of making each device, and its years of use: 150kg/5y (default: not counted)",
      arguments.embodied, parse_embodied);
  app.add_option("--devices", arguments.devices, "Number of devices for --embodied (default 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 10'000'000));
  app.add_flag("--unknown-length", arguments.is_unknown_length,
               "Simulate a job of unstated length: at any time it may be at most --slack behind "
               "1/(deadline factor) of the fastest pace");
  add_parsed(app, "--slack", "TIME", "Allowed lag for --unknown-length (default 12h)",
             arguments.slack, parse_seconds);
}

Result<double> parse_percent_share(std::string_view text) {
  const double share = HARPE_TRY(parse_percent(text)) / 100;
  if (share > 1) return Error::invalid("expected at most 100 %");
  return share;
}

void add_planning_options(CLI::App& app, SimulateArguments& arguments) {
  const OptionGroup group(app, "Planning");
  add_parsed(app, "--guard", "PERCENT",
             "Most emissions above one steady pace that a plan may risk (default: no guard; "
             "see docs/carbon.md)",
             arguments.job.guard, [](std::string_view text) -> Result<std::optional<double>> {
               return std::optional(HARPE_TRY(parse_percent(text)) / 100);
             });
  add_parsed(app, "--guard-confidence", "PERCENT",
             "Share of past forecast errors for which --guard holds (default 99); 100: for any "
             "forecast, if intensities stay within the range of the last four weeks",
             arguments.job.guard_share, [](std::string_view text) -> Result<double> {
               return 1 - HARPE_TRY(parse_percent_share(text));
             });
  add_exogenous_options(app, "Forecasts also learn from them", arguments.exogenous);
  add_parsed(app, "--error-share", "PERCENT",
             "Share of the forecast error to keep (default 100): shows the gain of a better "
             "forecast, such as one with weather",
             arguments.error_share, parse_percent_share);
  const auto set_eta = [&arguments](double eta) {
    arguments.job.chase.eta = eta;
    arguments.shows_chase = true;
  };
  app.add_option_function<double>("--chase-eta", set_eta,
                                  "Chase's weight of carbon (default 0.24); also compares Chase's "
                                  "rule with one constant limit")
      ->type_name("ETA")
      ->check(CLI::Range(0.0, 1.0));
  add_parsed(app, "--chase-power", "WATTS",
             "Highest power of Chase's rule (default: power at the fastest pace; published: 300W)",
             arguments.chase_power, parse_watts);
}

}  // namespace

void add_carbon_simulate_command(Commands& commands, CLI::App& carbon) {
  const auto arguments = std::make_shared<SimulateArguments>();
  CLI::App& app = commands.add(
      carbon, "simulate",
      "emissions of a job whose speed follows the grid\n"
      "Simulates a job from many start times of a recorded series: at all-max, at the best static "
      "pace, by Chase's rule, by Harpe's plans from the forecasts of that time, and with "
      "hindsight, which no forecast can beat. Warns if there is nothing to gain.",
      "harpe carbon simulate --series ES_2022_hourly.csv --train ES_2021_hourly.csv \\\n"
      "  --frontier plan/frontier.json --hours 48 --deadline-factor 1.5 --pause\n"
      "harpe carbon simulate --series ES_2022_hourly.csv --deadline-factor 1.1 \\\n"
      "  --frontier plan/frontier.json --compare one-setting\n"
      "harpe carbon simulate --series de.csv --profile limits.json --hours 12 --json\n"
      "harpe carbon prices entsoe:10Y1001A1001A82H --from 2025-01-01 --csv prices.csv\n"
      "harpe carbon simulate --series prices.csv --price \\\n"
      "  --frontier plan/frontier.json --pause",
      [arguments](Console& console) { return run_simulate(*arguments, console); });
  add_text(app, "--series", "SERIES.csv", "Carbon intensities over time", arguments->file)
      ->required();
  add_text(app, "--train", "EARLIER.csv", "Earlier series for forecasts to learn from",
           arguments->train);
  app.add_option("--starts", arguments->starts, "Start times, spread evenly (default 100)")
      ->type_name("N")
      ->check(CLI::Range(1, kMostStarts));
  add_price_option(app, arguments->series);
  add_job_options(app, *arguments);
  add_planning_options(app, *arguments);
  add_series_options(app, arguments->series);
}

}  // namespace harpe::command
