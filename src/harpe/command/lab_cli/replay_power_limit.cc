#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/input/input_file.h"
#include "harpe/command/lab_cli/lab_cli.h"
#include "harpe/lab/replay/limit_replay.h"

namespace harpe::command {
namespace {

using Kind = zeus::Selector::Kind;

struct PowerLimitArguments {
  std::string run;
  zeus::Selector selector;
  int steps_per_epoch = 0;
  int window_steps = 22;  ///< of Harpe: seven windows in half of Zeus's steps for nine
};

/// The parts of a run that are shown.
struct PowerLimitReplay {
  lab::RecordedRun run;
  zeus::Selector selector;
  lab::ProfilingReplay zeus, harpe;

  /// Returns the selector's score; for a maximum slowdown the seconds.
  double score(std::size_t i) const {
    const zeus::Measurement& one = run.measurements[i];
    if (selector.kind == Kind::kMaxSlowdown) return one.time.value;
    return zeus::weights_of(selector, run.knob[0]).of(one.time, one.energy);
  }
};

Json watts_json(double watts) {
  if (watts == std::floor(watts)) return static_cast<std::int64_t>(watts);
  return watts;
}

Json replay_json(const lab::RecordedRun& run, const lab::ProfilingReplay& replay) {
  Json calls = Json::array();
  for (const lab::SetCall& call : replay.set_calls) {
    calls.push_back({call.step, watts_json(run.knob[call.setting])});
  }
  Json measured = Json::array();
  for (const std::size_t i : replay.order) measured.push_back(watts_json(run.knob[i]));
  return {{"power_limit_w", replay.choice ? watts_json(run.knob[*replay.choice]) : Json()},
          {"set_calls", std::move(calls)},
          {"measured_w", std::move(measured)},
          {"done_step", replay.done_step}};
}

std::string json_of(const PowerLimitReplay& replay) {
  Json document = replay_json(replay.run, replay.zeus);
  document["harpe"] = replay_json(replay.run, replay.harpe);
  document["gpus"] = replay.run.gpus;
  Json settings = Json::array();
  for (std::size_t i = 0; i < replay.run.knob.size(); ++i) {
    settings.push_back({{"power_limit_w", watts_json(replay.run.knob[i])},
                        {"time_s", replay.run.measurements[i].time.value},
                        {"energy_j", replay.run.measurements[i].energy.value},
                        {"cost_j", replay.score(i)}});
    if (replay.selector.kind != Kind::kCost) settings.back().erase("cost_j");
  }
  document["settings"] = std::move(settings);
  return json_text(document);
}

/// Returns a remark such as "chosen by Zeus and Harpe".
std::string remark(const PowerLimitReplay& replay, std::size_t i) {
  const bool zeus = replay.zeus.choice == i, harpe = replay.harpe.choice == i;
  if (zeus && harpe) return "chosen by Zeus and Harpe";
  if (zeus) return "chosen by Zeus";
  if (harpe) return "chosen by Harpe";
  return std::ranges::count(replay.harpe.order, i) != 0 ? "" : "not measured by Harpe";
}

std::string text_of(const PowerLimitReplay& replay, bool coloured) {
  const bool has_cost = replay.selector.kind == Kind::kCost;
  std::vector<std::string> headings = {"limit W", "time s", "energy J"};
  if (has_cost) headings.emplace_back("cost J");
  Table table = Table::of(headings, 0);
  table.columns.push_back({.heading = "", .align = Align::kLeft});
  for (std::size_t i = 0; i < replay.run.knob.size(); ++i) {
    const zeus::Measurement& one = replay.run.measurements[i];
    std::vector<std::string> cells = {shortest(one.setting), grouped(one.time.value, 3),
                                      grouped(one.energy.value, 1)};
    if (has_cost) cells.push_back(grouped(replay.score(i), 1));
    cells.push_back(remark(replay, i));
    table.add(std::move(cells), replay.zeus.choice == i || replay.harpe.choice == i);
  }
  const auto sentence = [&](const char* name, const lab::ProfilingReplay& one) {
    return std::string(name) + ": " + replay.run.knob.text(one.choice.value_or(0)) + " after " +
           std::to_string(one.done_step) + " steps, " + std::to_string(one.order.size()) +
           " limits measured, " + std::to_string(one.set_calls.size()) + " set calls\n";
  };
  return table.text(coloured) + sentence("Zeus", replay.zeus) + sentence("Harpe", replay.harpe);
}

Result<Outcome> run_power_limit(const PowerLimitArguments& arguments, Console& console) {
  const std::string text = HARPE_TRY(read_input_file(arguments.run));
  PowerLimitReplay replay{.run = HARPE_TRY(lab::parse_recorded_run(text, arguments.run)),
                          .selector = arguments.selector,
                          .zeus = {},
                          .harpe = {}};
  replay.selector.gpus = replay.run.gpus;
  const zeus::Selector& selector = replay.selector;
  replay.zeus =
      HARPE_TRY(lab::replay_zeus(replay.run, {.selector = selector}, arguments.steps_per_epoch));
  replay.harpe = HARPE_TRY(lab::replay_profiler(replay.run, {.selector = selector},
                                                arguments.window_steps, arguments.steps_per_epoch));
  return Outcome{.text = text_of(replay, console.colour_out), .json = json_of(replay)};
}

Result<Kind> parse_selector(std::string_view text) {
  if (text == "energy") return Kind::kEnergy;
  if (text == "time") return Kind::kTime;
  if (text == "cost") return Kind::kCost;
  if (text == "max-slowdown") return Kind::kMaxSlowdown;
  return Error::invalid("expected energy, time, cost or max-slowdown, found " + in_quotes(text));
}

/// Returns a parser of numbers within bounds.
auto number_within(double lowest, double highest, const char* expected) {
  return [=](std::string_view text) -> Result<double> {
    const auto value = parse_number(text);
    if (value && *value >= lowest && *value <= highest) return *value;
    return Error::invalid("expected " + std::string(expected) + ", found " + in_quotes(text));
  };
}

}  // namespace

void add_replay_power_limit_command(Commands& commands, CLI::App& replay) {
  const auto arguments = std::make_shared<PowerLimitArguments>();
  CLI::App& app = commands.add(
      replay, "power-limit",
      "choose a power limit from a recorded run\n"
      "Runs Zeus's power limit optimizer and Harpe's own over a profiling run that Zeus's monitor "
      "logged: a CSV file with one window per power limit. Shows the steps at which both set "
      "limits, and their choices. A recorded window has 40 steps. Harpe's windows have a fixed "
      "length here (--window-steps); in a real run they end as soon as the measurement is certain.",
      "harpe replay power-limit A40+resnet50+gpu0.csv --selector cost --eta 0.5\n"
      "harpe replay power-limit run.csv --selector max-slowdown --slowdown 1.1 --json\n"
      "harpe replay power-limit run.csv --steps-per-epoch 205 --host-power 350W",
      [arguments](Console& console) { return run_power_limit(*arguments, console); });
  app.add_option("RUN", arguments->run, "Recorded run: window_name, elapsed_time, gpu0_energy, ...")
      ->type_name("RUN.csv")
      ->required()
      ->group("Arguments");
  add_parsed(app, "--selector", "WHAT",
             "Objective: energy, time, cost or max-slowdown (default cost)",
             arguments->selector.kind, parse_selector);
  add_parsed(app, "--eta", "SHARE", "For cost: from 0, only time, to 1, only energy (default 0.5)",
             arguments->selector.eta, number_within(0, 1, "a number from 0 to 1"));
  add_parsed(app, "--slowdown", "FACTOR",
             "For max-slowdown: time divided by the time at the highest limit (default 1)",
             arguments->selector.slowdown, number_within(1, 1e6, "a factor of at least 1"));
  add_parsed(app, "--host-power", "WATTS",
             "Power of the node without its GPUs; counts as energy (default 0)",
             arguments->selector.host_power, parse_watts);
  add_parsed(app, "--steps-per-epoch", "N", "Steps per epoch (default: epochs do not end)",
             arguments->steps_per_epoch, count_within(1, 1'000'000'000));
  add_parsed(app, "--window-steps", "N", "Steps of each of Harpe's windows, 1 to 40 (default 22)",
             arguments->window_steps, count_within(1, lab::kRecordedSteps));
}

}  // namespace harpe::command
