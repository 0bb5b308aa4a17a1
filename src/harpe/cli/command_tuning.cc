#include "harpe/cli/command_tuning.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "harpe/base/file.h"
#include "harpe/base/json_fields.h"
#include "harpe/base/text.h"
#include "harpe/cli/device_setting.h"
#include "harpe/command/options.h"
#include "harpe/command/quantity_text.h"
#include "harpe/hw/system_clock.h"
#include "harpe/power_limit/limit_profile.h"
#include "harpe/tuning/agent_setter.h"
#include "harpe/tuning/monitor_meter.h"
#include "harpe/tuning/offered_knob.h"
#include "harpe/tuning/tuning_run.h"

namespace harpe {
namespace {

constexpr const char* kStepsVariable = "HARPE_STEPS";
// Drivers, libraries and data change; a month-old profile is a guess.
constexpr Seconds kOldestProfile{30.0 * 86400};

Selector selector_of(const TuningArguments& arguments) {
  Selector selector{.kind = *arguments.what, .host_power = arguments.host_power};
  selector.eta = arguments.eta.value_or(selector.eta);
  selector.most_slowdown = arguments.most_slowdown;
  return selector;
}

double now_on_the_wall() {
  return static_cast<double>(std::time(nullptr));
}

/// The GPU as this process itself sees it, as if everything might be set.
FoundGpu found_here(Gpu& gpu) {
  FoundGpu found;
  const Result<PowerLimitRange> range = gpu.power_limit_range();
  if (range.ok()) {
    found.offer.limits = *range;
    found.offer.allowed_limits = {{range->lowest, range->highest}};
  }
  const Result<Watts> limit = gpu.power_limit();
  if (limit.ok()) found.found.power_limit = *limit;
  return found;
}

Result<Selector::Kind> parse_objective(std::string_view text) {
  if (text == "energy") return Selector::Kind::kEnergy;
  if (text == "time") return Selector::Kind::kTime;
  if (text == "cost") return Selector::Kind::kCost;
  return Error::invalid("expected energy, time or cost, found " + in_quotes(text));
}

}  // namespace

struct CommandTuning::State {
  State(TuningArguments what, const std::string& of_command, StepFile file)
      : arguments(std::move(what)), steps(std::move(file)) {
    report.selector = selector_of(arguments);
    report.online = arguments.online;
    report.measures_node = arguments.measures_node;
    key.job = of_command.substr(0, kLongestText);
    key.batch_size = 1;  // the command line says it, if at all
  }

  void look_at_gpus(EnergyMonitor& monitor);
  void open_setter(const std::vector<GpuIdentity>& gpus);
  std::vector<Measurement> known(const Knob& knob);
  void advise_where_nothing_is_set();
  void write_profile();

  const TuningArguments arguments;
  StepFile steps;
  std::optional<LimitProfile> profile;  ///< as it was found
  ProfileKey key;
  TuningReport report;
  std::unique_ptr<KnobSetter> setter;
  std::unique_ptr<MonitorMeter> meter;
  std::unique_ptr<Tuner> tuner;
  std::unique_ptr<TuningRun> run;
};

/// What there is, for the objective and for advice.
void CommandTuning::State::look_at_gpus(EnergyMonitor& monitor) {
  const std::vector<GpuIdentity> gpus = monitor.gpus();
  std::vector<FoundGpu> found;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    monitor.use_gpu(i, [&](Gpu& gpu) { found.push_back(found_here(gpu)); });
  }
  report.could_be = limit_knob(found);
  report.selector.gpus = std::max(1, static_cast<int>(gpus.size()));
  for (const FoundGpu& gpu : found) {
    if (!gpu.offer.limits) continue;
    report.selector.max_power = std::max(report.selector.max_power, gpu.offer.limits->highest);
  }
  if (gpus.empty()) return;
  key.gpu_model = gpus.front().name;
  if (gpus.size() > 1) key.gpu_model += " x " + std::to_string(gpus.size());
}

void CommandTuning::State::open_setter(const std::vector<GpuIdentity>& gpus) {
  std::vector<std::string> uuids;
  for (const GpuIdentity& gpu : gpus) uuids.push_back(gpu.uuid);
  Result<std::unique_ptr<KnobSetter>> opened = open_agent_setter(
      agent_socket(arguments.socket), uuids, "harpe run --optimize", system_clock());
  if (opened.ok()) {
    setter = std::move(opened).take();
    return;
  }
  report.why_nothing_was_set = opened.error().text();
  // A GPU that has no limits is measured all the same: the setting is only a name then.
  const double found = report.could_be.size() > 0 ? report.could_be[0] : 1;
  setter = std::make_unique<NoSetter>(Knob::make(KnobKind::kPowerLimit, {found}).take());
}

std::vector<Measurement> CommandTuning::State::known(const Knob& knob) {
  if (!profile) return {};
  auto stale = why_stale(*profile, key, now_on_the_wall(), kOldestProfile);
  if (!stale && profile->kind != knob.kind()) stale = "it is of another kind of setting";
  if (!stale) return profile->measurements;
  report.notes.push_back(arguments.profile + " is not used again: " + *stale);
  return {};
}

Result<std::unique_ptr<CommandTuning>> CommandTuning::prepare(const TuningArguments& arguments,
                                                              const std::string& command) {
  if (!arguments.what) return std::unique_ptr<CommandTuning>();
  if (arguments.eta && *arguments.what != Selector::Kind::kCost) {
    return Error::invalid("--eta goes with --optimize cost");
  }
  HARPE_TRY(check(selector_of(arguments)));
  std::optional<LimitProfile> profile;
  if (!arguments.profile.empty() && std::filesystem::exists(arguments.profile)) {
    const std::string text = HARPE_TRY(read_file(arguments.profile));
    profile = HARPE_TRY(parse_limit_profile(text, arguments.profile));
  }
  StepFile file = HARPE_TRY(StepFile::create());
  // NOLINTNEXTLINE(concurrency-mt-unsafe): called before there are threads
  ::setenv(kStepsVariable, file.path().c_str(), 1);
  auto state = std::make_unique<State>(arguments, command, std::move(file));
  state->profile = std::move(profile);
  return std::unique_ptr<CommandTuning>(new CommandTuning(std::move(state)));
}

CommandTuning::CommandTuning(std::unique_ptr<State> state) : state_(std::move(state)) {}

CommandTuning::~CommandTuning() = default;

void CommandTuning::start(EnergyMonitor* monitor) {
  State& state = *state_;
  if (monitor == nullptr || monitor->gpus().empty()) {
    state.report.why_nothing_was_set =
        monitor == nullptr ? "the GPUs did not answer in time" : "there is no GPU here";
    return;
  }
  state.look_at_gpus(*monitor);
  state.open_setter(monitor->gpus());
  state.meter = std::make_unique<MonitorMeter>(*monitor, state.report.measures_node);
  TunerOptions options{.selector = state.report.selector,
                       .online = state.report.online,
                       .known = state.known(state.setter->knob())};
  Result<std::unique_ptr<Tuner>> tuner =
      Tuner::make(std::move(options), *state.setter, *state.meter);
  if (!tuner.ok()) {
    state.report.why_nothing_was_set = tuner.error().text();
    return;
  }
  state.tuner = std::move(tuner).take();
  state.run = std::make_unique<TuningRun>(state.steps, *state.tuner, *state.setter, system_clock());
}

TuningReport CommandTuning::finish() {
  State& state = *state_;
  state.run.reset();
  if (state.tuner) state.report.result = state.tuner->result();
  state.report.ignored_lines = state.steps.parser().ignored();
  state.advise_where_nothing_is_set();
  state.write_profile();
  state.tuner.reset();
  state.meter.reset();
  state.setter.reset();
  return state.report;
}

void CommandTuning::State::advise_where_nothing_is_set() {
  const bool measured = !report.result.costs.empty() && report.result.costs[0].steps > 0;
  if (report.why_nothing_was_set.empty() || !measured || !report.could_be.can_choose()) return;
  const StepCost& found = report.result.costs[0];
  report.advice =
      advise(report.could_be, {report.could_be[0], found.time, found.energy}, report.selector);
}

void CommandTuning::State::write_profile() {
  const TuningResult& result = report.result;
  if (arguments.profile.empty() || arguments.online || result.from_profile || !result.decided ||
      result.measurements.size() < 2) {
    return;
  }
  const Status written =
      write_file(arguments.profile, limit_profile_json({.kind = result.knob.kind(),
                                                        .measurements = result.measurements,
                                                        .key = key,
                                                        .measured_at = now_on_the_wall()}));
  report.notes.push_back(written.ok() ? "what was measured is in " + arguments.profile
                                      : written.error().text());
}

void add_tuning_options(CLI::App& app, TuningArguments& arguments) {
  const std::string group = "Tuning";
  auto* optimize = add_parsed(
      app, "--optimize", "WHAT",
      "Choose the GPUs' clock or power limit while the command runs: least energy, time or cost. "
      "The command says when its steps begin, by a line in the file that HARPE_STEPS names "
      "(docs/zeus.md)",
      arguments.what, [](std::string_view text) -> Result<std::optional<Selector::Kind>> {
        return std::optional(HARPE_TRY(parse_objective(text)));
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
  with(add_text(app, "--profile", "FILE",
                "Keep what was measured there, and use it again for the same command and GPUs",
                arguments.profile));
  with(add_text(app, "--socket", "PATH",
                "Socket of the agent (default: HARPE_AGENT_SOCKET, then /run/harpe/agent.sock)",
                arguments.socket));
}

}  // namespace harpe
