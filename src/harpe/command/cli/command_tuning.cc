#include "harpe/command/cli/command_tuning.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/quantity_text.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/zeus/tuning/tuning_run.h"

namespace harpe {
namespace {

constexpr const char* kStepsVariable = "HARPE_STEPS";

Selector selector_of(const TuningArguments& arguments) {
  Selector selector{.kind = *arguments.what, .host_power = arguments.host_power};
  selector.eta = arguments.eta.value_or(selector.eta);
  selector.most_slowdown = arguments.most_slowdown;
  return selector;
}

Result<Selector::Kind> parse_selector_kind(std::string_view text) {
  if (text == "energy") return Selector::Kind::kEnergy;
  if (text == "time") return Selector::Kind::kTime;
  if (text == "cost") return Selector::Kind::kCost;
  return Error::invalid("expected energy, time or cost, found " + in_quotes(text));
}

}  // namespace

struct CommandTuning::State {
  StepFile steps;
  std::unique_ptr<JobTuning> tuning;
  std::unique_ptr<TuningRun> run = {};
};

Result<std::unique_ptr<CommandTuning>> CommandTuning::prepare(const TuningArguments& arguments,
                                                              const std::string& command) {
  if (!arguments.what) return std::unique_ptr<CommandTuning>();
  if (arguments.eta && *arguments.what != Selector::Kind::kCost) {
    return Error::invalid("--eta goes with --optimize cost");
  }
  auto tuning = HARPE_TRY(JobTuning::make({.selector = selector_of(arguments),
                                           .online = arguments.online,
                                           .measures_node = arguments.measures_node,
                                           .profile = arguments.profile,
                                           .socket = arguments.socket,
                                           .lease = "harpe run --optimize",
                                           .job = arguments.job.empty() ? command : arguments.job,
                                           .batch_size = arguments.batch_size}));
  StepFile file = HARPE_TRY(StepFile::create());
  // NOLINTNEXTLINE(concurrency-mt-unsafe): called before there are threads
  ::setenv(kStepsVariable, file.path().c_str(), 1);
  return std::unique_ptr<CommandTuning>(new CommandTuning(
      std::make_unique<State>(State{.steps = std::move(file), .tuning = std::move(tuning)})));
}

CommandTuning::CommandTuning(std::unique_ptr<State> state) : state_(std::move(state)) {}

CommandTuning::~CommandTuning() = default;

void CommandTuning::start(EnergyMonitor* monitor) {
  JobTuning& tuning = *state_->tuning;
  tuning.start(monitor, system_clock());
  if (tuning.tuner() == nullptr) return;
  state_->run =
      std::make_unique<TuningRun>(state_->steps, *tuning.tuner(), tuning.setter(), system_clock());
}

TuningReport CommandTuning::finish() {
  state_->run.reset();
  TuningReport report = state_->tuning->finish();
  report.ignored_lines = state_->steps.parser().ignored();
  report.refused_lines = state_->steps.refused();
  return report;
}

void add_tuning_options(CLI::App& app, TuningArguments& arguments) {
  const std::string group = "Tuning";
  auto* optimize = add_parsed(
      app, "--optimize", "WHAT",
      "Choose the GPUs' clock or power limit while the command runs: least energy, time or cost. "
      "The command says when its steps begin, by a line in the file that HARPE_STEPS names "
      "(docs/zeus.md)",
      arguments.what, [](std::string_view text) -> Result<std::optional<Selector::Kind>> {
        return std::optional(HARPE_TRY(parse_selector_kind(text)));
      });
  const auto with = [&](CLI::Option* option) { option->needs(optimize)->group(group); };
  optimize->group(group);
  with(add_parsed(app, "--max-slowdown", "PERCENT",
                  "At most so much longer a step than at the highest setting, such as 3% (default: "
                  "any; with --online 5%)",
                  arguments.most_slowdown,
                  [](std::string_view text) -> Result<std::optional<double>> {
                    return std::optional(1 + HARPE_TRY(parse_percent(text)) / 100);
                  }));
  with(add_parsed(app, "--eta", "SHARE",
                  "Of cost: from 0, time alone, to 1, energy alone (default 0.5)", arguments.eta,
                  [](std::string_view text) -> Result<std::optional<double>> {
                    return std::optional(HARPE_TRY(parse_share(text)));
                  }));
  with(app.add_flag("--online", arguments.online,
                    "No profiling phase: choose step by step, never slower on the whole than "
                    "--max-slowdown; for long jobs"));
  with(add_parsed(app, "--host-power", "WATTS",
                  "What the node draws beside its GPUs, or 'measured': its CPUs and their memory; "
                  "counts as energy (default 0)",
                  arguments.host_power, [&arguments](std::string_view text) -> Result<Watts> {
                    arguments.measures_node = text == "measured";
                    if (arguments.measures_node) return Watts{0};
                    return parse_watts(text);
                  }));
  with(add_text(app, "--profile", "FILE|FOLDER/",
                "Keep what was measured there, and use it again for the same command and GPUs; in "
                "a folder with a file of each batch size, which tell of one another",
                arguments.profile));
  with(add_text(app, "--job", "NAME", "What a profile holds for (default: the command line)",
                arguments.job));
  with(add_parsed(app, "--batch-size", "N",
                  "Of the training: a profile holds for it alone (default 1)", arguments.batch_size,
                  [](std::string_view text) { return parse_count(text, 1, 1'000'000'000); }));
  with(add_text(app, "--socket", "PATH",
                "Socket of the agent (default: HARPE_AGENT_SOCKET, then /run/harpe/agent.sock)",
                arguments.socket));
}

}  // namespace harpe
