#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "harpe/base/file.h"
#include "harpe/base/mutex.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/random_id.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon/energy_ledger.h"
#include "harpe/carbon/carbon/intensity.h"
#include "harpe/carbon/carbon_source/accounting_intensity.h"
#include "harpe/command/carbon_cli/source_options.h"
#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/command_meter.h"
#include "harpe/command/cli/device_options.h"
#include "harpe/command/cli/measure_output.h"
#include "harpe/command/cli/run_child.h"
#include "harpe/command/cli/run_report.h"
#include "harpe/command/cli/shell_words.h"
#include "harpe/command/command/kept_result.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/device/measure/energy_log.h"
#include "harpe/device/measure/energy_monitor.h"
#include "harpe/zeus/power_limit/selector.h"
#include "harpe/zeus/tuning/job_tuning.h"
#include "harpe/zeus/tuning/tuning_run.h"

namespace harpe::command {
namespace {

/// The options --carbon and --offline; `source.text` is empty if they were not given.
struct RunCarbon {
  SourceArguments source;

  bool asked() const { return !source.text.empty(); }
  /// Returns true for a number or a country's yearly mean, which need no provider.
  bool is_number() const;
};

struct FoundIntensity {
  std::optional<carbon::AccountingIntensity> intensity = {};
  std::string why = {};  ///< reason if there is no intensity
  /// True if a thread that cannot be stopped still waits for a provider: exit with `_Exit`.
  bool hangs = false;
};

constexpr carbon::WholeSeconds kRunStep = carbon::whole_minutes(5);
constexpr std::chrono::milliseconds kAskAgain(50);

/// State shared by the thread that calls the provider and the thread that waits for it.
struct Asked {
  Mutex mutex;
  CondVar changed;
  std::optional<Result<carbon::AccountingIntensity>> answer HARPE_GUARDED_BY(mutex);
};

Result<carbon::AccountingIntensity> ask(const SourceArguments& arguments, carbon::UtcTime from,
                                        carbon::UtcTime to) {
  const auto source = HARPE_TRY(open_source(arguments));
  return carbon::accounting_intensity(*source, arguments.source, from, to);
}

FoundIntensity found(Result<carbon::AccountingIntensity> answer) {
  if (answer.ok()) return {.intensity = *std::move(answer)};
  FoundIntensity none{.why = answer.error().text()};
  for (std::size_t at = 0; (at = none.why.find('\n', at)) != std::string::npos;) {
    none.why.replace(at, 1, "; ");
  }
  return none;
}

bool RunCarbon::is_number() const {
  return source.source.provider == carbon::SourceSpecification::Provider::kConstant;
}

/// Checks that the source's token or file exists, so that the user sees the error before the
/// command runs. Does not call the provider.
Status check_source(const RunCarbon& carbon) {
  if (carbon.asked()) HARPE_TRY(open_source(carbon.source));
  return ok_status();
}

/// Returns the step of a command's ledger: 5 minutes, or the step of the source if that is finer.
carbon::WholeSeconds ledger_step(const RunCarbon& carbon) {
  if (!carbon.asked() || carbon.is_number()) return kRunStep;
  const auto source = open_source(carbon.source);
  if (!source.ok()) return kRunStep;
  const carbon::WholeSeconds step = std::min(kRunStep, (*source)->identity().step);
  return carbon::EnergyLedger::is_step(step) ? step : kRunStep;
}

/// Waits for at most `longest`. Stops if `give_up`, called every 50 ms, returns true.
FoundIntensity find_intensity(const RunCarbon& carbon, carbon::UtcTime from, carbon::UtcTime to,
                              Seconds longest, const std::function<bool()>& give_up) {
  if (carbon.is_number()) return found(ask(carbon.source, from, to));
  const auto asked = std::make_shared<Asked>();
  std::thread thread([asked, arguments = carbon.source, from, to] {
    auto answer = ask(arguments, from, to);
    const MutexLock lock(asked->mutex);
    asked->answer = std::move(answer);
    asked->changed.notify_all();
  });
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(longest.value);
  MutexLock lock(asked->mutex);
  while (!asked->changed.wait_for(asked->mutex, kAskAgain, [&]() HARPE_REQUIRES(asked->mutex) {
    return asked->answer.has_value();
  })) {
    if (!give_up() && std::chrono::steady_clock::now() <= until) continue;
    lock.unlock();
    thread.detach();
    return {.why = "it did not answer in time", .hangs = true};
  }
  auto answer = *std::move(asked->answer);
  lock.unlock();
  thread.join();
  return found(std::move(answer));
}

struct TuningArguments {
  std::optional<zeus::Selector::Kind> what;  ///< --optimize; nullopt if nothing is tuned
  std::optional<double> eta;                 ///< --eta
  std::optional<double> most_slowdown;       ///< --max-slowdown, a factor
  bool measures_node = false;                ///< --host-power measured
  Watts host_power{0};
  std::string profile, job, socket;
  int batch_size = 1;
};

/// The tuning of one command. Call `prepare`, `start` and `finish` in this order. Not thread-safe.
class CommandTuning {
 public:
  /// Checks the arguments, reads the profile, creates the file of steps and sets its path in this
  /// process's environment. Call before threads start. Returns null if nothing is tuned.
  static Result<std::unique_ptr<CommandTuning>> prepare(const TuningArguments& arguments,
                                                        const std::string& command);
  ~CommandTuning();

  /// Starts tuning. Call just before the command begins.
  /// \param monitor  of the GPUs; null if they did not answer. Used until `finish`
  void start(EnergyMonitor* monitor);
  /// Returns the reason why nothing is set; empty if settings are set. Call after `start`.
  const std::string& why_nothing_is_set() const;
  /// Ends tuning after the command has ended: restores all settings and writes the profile.
  zeus::TuningReport finish();

 private:
  struct State;
  explicit CommandTuning(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

constexpr const char* kStepsVariable = "HARPE_STEPS";

zeus::Selector selector_of(const TuningArguments& arguments) {
  zeus::Selector selector{.kind = *arguments.what, .host_power = arguments.host_power};
  selector.eta = arguments.eta.value_or(selector.eta);
  selector.most_slowdown = arguments.most_slowdown;
  return selector;
}

Result<zeus::Selector::Kind> parse_selector_kind(std::string_view text) {
  if (text == "energy") return zeus::Selector::Kind::kEnergy;
  if (text == "time") return zeus::Selector::Kind::kTime;
  if (text == "cost") return zeus::Selector::Kind::kCost;
  return Error::invalid("expected energy, time or cost, found " + in_quotes(text));
}

struct CommandTuning::State {
  zeus::StepFile steps;
  std::unique_ptr<zeus::JobTuning> tuning;
  std::unique_ptr<zeus::TuningRun> run = {};
};

Result<std::unique_ptr<CommandTuning>> CommandTuning::prepare(const TuningArguments& arguments,
                                                              const std::string& command) {
  if (!arguments.what) return std::unique_ptr<CommandTuning>();
  if (arguments.eta && *arguments.what != zeus::Selector::Kind::kCost) {
    return Error::invalid("--eta needs --optimize cost");
  }
  auto tuning =
      HARPE_TRY(zeus::JobTuning::make({.selector = selector_of(arguments),
                                       .measures_node = arguments.measures_node,
                                       .profile = arguments.profile,
                                       .socket = arguments.socket,
                                       .lease = "harpe run --optimize",
                                       .job = arguments.job.empty() ? command : arguments.job,
                                       .batch_size = arguments.batch_size}));
  zeus::StepFile file = HARPE_TRY(zeus::StepFile::create());
  // NOLINTNEXTLINE(concurrency-mt-unsafe): called before there are threads
  ::setenv(kStepsVariable, file.path().c_str(), 1);
  return std::unique_ptr<CommandTuning>(new CommandTuning(
      std::make_unique<State>(State{.steps = std::move(file), .tuning = std::move(tuning)})));
}

CommandTuning::CommandTuning(std::unique_ptr<State> state) : state_(std::move(state)) {}

CommandTuning::~CommandTuning() = default;

void CommandTuning::start(EnergyMonitor* monitor) {
  zeus::JobTuning& tuning = *state_->tuning;
  tuning.start(monitor, system_clock());
  if (tuning.tuner() == nullptr) return;
  state_->run = std::make_unique<zeus::TuningRun>(state_->steps, *tuning.tuner(), tuning.setter(),
                                                  system_clock());
}

const std::string& CommandTuning::why_nothing_is_set() const {
  return state_->tuning->why_nothing_is_set();
}

zeus::TuningReport CommandTuning::finish() {
  state_->run.reset();
  zeus::TuningReport report = state_->tuning->finish();
  report.ignored_lines = state_->steps.parser().ignored();
  report.refused_lines = state_->steps.refused();
  return report;
}

/// Adds `--optimize` and the options that go with it.
void add_tuning_options(CLI::App& app, TuningArguments& arguments) {
  const std::string group = "Tuning";
  auto* optimize = add_parsed(
      app, "--optimize", "WHAT",
      "Choose the GPUs' clock or power limit during the run, for the least energy, time or cost. "
      "The command marks the start of each step by a line in the file that HARPE_STEPS names "
      "(docs/zeus.md)",
      arguments.what, parse_selector_kind);
  const auto with = [&](CLI::Option* option) { option->needs(optimize)->group(group); };
  optimize->group(group);
  with(add_parsed(app, "--max-slowdown", "PERCENT",
                  "Maximum slowdown of a step against the highest setting, such as 3% (default: "
                  "no limit)",
                  arguments.most_slowdown,
                  [](std::string_view text) -> Result<std::optional<double>> {
                    return std::optional(1 + HARPE_TRY(parse_percent(text)) / 100);
                  }));
  with(add_parsed(
      app, "--eta", "SHARE",
      "Weight of energy in the cost: from 0 (only time) to 1 (only energy) (default 0.5)",
      arguments.eta, parse_share));
  with(add_parsed(app, "--host-power", "WATTS",
                  "Power of the node without its GPUs, W, or 'measured' for its CPUs and their "
                  "memory; counts as energy (default 0)",
                  arguments.host_power, [&arguments](std::string_view text) -> Result<Watts> {
                    arguments.measures_node = text == "measured";
                    if (arguments.measures_node) return Watts{0};
                    return parse_watts(text);
                  }));
  with(add_text(app, "--profile", "FILE|FOLDER/",
                "Store the measurements in this file, and use them again for the same command and "
                "GPUs. A folder has a file for each batch size; a run also uses the files of "
                "other sizes",
                arguments.profile));
  with(add_text(app, "--job", "NAME", "Name of the job in the profile (default: the command line)",
                arguments.job));
  with(add_parsed(app, "--batch-size", "N",
                  "Batch size of the training; a profile is valid for one batch size (default 1)",
                  arguments.batch_size, count_within(1, 1'000'000'000)));
  with(add_text(app, "--socket", "PATH",
                "Socket of the agent (default: HARPE_AGENT_SOCKET, then /run/harpe/agent.sock)",
                arguments.socket));
}

struct RunArguments {
  DeviceArguments devices;
  TuningArguments tuning;
  RunCarbon carbon;
  std::optional<EmbodiedCarbon> embodied;
  std::string csv, out;
};

/// Longest waits for the devices to be read, before the command and after it.
constexpr Seconds kLongestStart{0.6}, kLongestEnd{30};
/// Longest wait for a provider of carbon intensity.
constexpr Seconds kLongestQuestion{20};

/// Notes processes of others on the GPUs that ran before the command or still run after it.
void note_other_processes(const WindowEnergy& before, RunReport& report) {
  for (const DeviceEnergy& device : report.used.devices) {
    std::set<std::int64_t> others;
    for (const DeviceEnergy& earlier : before.devices) {
      if (earlier.kind == device.kind && earlier.index == device.index) {
        others.insert(earlier.processes.begin(), earlier.processes.end());
      }
    }
    for (const std::int64_t process : device.processes) {
      if (::kill(static_cast<pid_t>(process), 0) == 0) others.insert(process);
    }
    if (others.empty()) continue;
    std::vector<std::string> ids;
    for (const std::int64_t id : others) ids.push_back(std::to_string(id));
    report.notes.push_back(device.label() +
                           " is shared: its energy includes that of other processes (" +
                           joined(ids) + ")");
  }
}

/// Writes the report: as JSON to --out; to standard error as text or, with --json and no file, as
/// JSON. The exit status stays the command's, even if the report cannot be written.
void tell(const RunArguments& arguments, const RunReport& report, Console& console) {
  const auto complain_of = [&](const Result<KeptResult>& kept) {
    if (kept.ok() && !kept->trouble) return;
    console.err << painted("error:", Paint::kRed, console.colour_err) << ' '
                << (kept.ok() ? *kept->trouble : kept.error()).text() << '\n';
  };
  if (!arguments.csv.empty()) {
    const auto append = [&](const std::filesystem::path& at) {
      return EnergyLog(at).append(report.used);
    };
    complain_of(write_or_keep(arguments.csv, append));
  }
  bool in_file = false;
  if (!arguments.out.empty()) {
    const auto write = [&](const std::filesystem::path& at) {
      return write_file(at, run_json(report));
    };
    const Result<KeptResult> kept = write_or_keep(arguments.out, write);
    complain_of(kept);
    in_file = kept.ok();
  }
  if (!console.json) {
    const int columns = console.show_progress ? terminal_size(STDERR_FILENO).columns : 0;
    console.err << run_text(report, columns, console.colour_err);
  } else if (!in_file) {
    console.err << run_json(report);
  }
  console.err << std::flush;
}

/// Adds the command's emissions by the intensities of its time. Returns true if a thread still
/// waits for the intensities.
bool add_emissions(const RunCarbon& carbon, ChildRunner& runner, RunReport& report) {
  if (!carbon.asked() || !report.measured() || report.ledger.empty()) return false;
  FoundIntensity found =
      find_intensity(carbon, report.ledger.begin(), report.ledger.end(), kLongestQuestion,
                     [&runner] { return runner.asked_to_end(); });
  RunEmissions& emissions = *report.carbon;
  emissions.why = std::move(found.why);
  emissions.intensity = std::move(found.intensity);
  if (emissions.intensity) {
    emissions.account = carbon::account_for(report.ledger, emissions.intensity->intensity, {});
  }
  return found.hangs;
}

/// Writes the report or, if the command did not run, the reason to standard error.
void conclude(const RunArguments& arguments, const RunReport& report, Console& console) {
  if (report.exit.failure.empty()) return tell(arguments, report, console);
  // Nothing ran, so there is nothing to report.
  const std::string why =
      in_quotes(report.command.front()) + " cannot be executed: " + report.exit.failure;
  if (console.json) {
    const bool missing = report.exit.status == 127;
    console.err << error_json(
                       Error::of(missing ? ErrorCode::kNotFound : ErrorCode::kUnavailable, why))
                << std::flush;
  } else {
    console.err << painted("error:", Paint::kRed, console.colour_err) << ' ' << why << '\n';
  }
}

Result<RunReport> measure_command(const RunArguments& arguments,
                                  const std::vector<std::string>& command, Console& console) {
  ChosenDevices chosen = HARPE_TRY(open_chosen_devices(arguments.devices));

  // Both before any thread: `prepare` sets the environment, and threads inherit the signal mask.
  const std::unique_ptr<CommandTuning> tuning =
      HARPE_TRY(CommandTuning::prepare(arguments.tuning, shell_text(command)));
  ChildRunner runner;
  const carbon::WholeSeconds step = ledger_step(arguments.carbon);
  CommandMeter meter(chosen.chosen_gpus(), chosen.all_cpus(), system_clock(), shell_text(command),
                     step);
  meter.prepare(kLongestStart);
  RunReport report{.command = command,
                   .exit = {},
                   .used = {},
                   .id = random_id(8),
                   .notes = chosen.notes,
                   .backends = chosen.devices.backends,
                   .simulated = any_simulated(chosen),
                   .embodied = arguments.embodied};
  if (arguments.carbon.asked())
    report.carbon = RunEmissions{.source = arguments.carbon.source.text};
  if (tuning) tuning->start(meter.monitor());
  // A training may run for weeks: its user must not learn this from the report at its end.
  if (tuning && !console.json && !tuning->why_nothing_is_set().empty()) {
    console.err << "harpe run: nothing is set during this run: " << tuning->why_nothing_is_set()
                << std::endl;  // NOLINT(performance-avoid-endl): before the command's first line
  }
  meter.begin();
  const Instant begin = system_clock().now();
  Result<ChildExit> exit = runner.run(command);
  const Instant end = system_clock().now();
  if (tuning) report.tuning = tuning->finish();
  meter.end(end);
  report.used.time = end - begin;
  if (!exit.ok()) return std::move(exit).error();
  report.exit = *std::move(exit);
  auto used = meter.used(kLongestEnd, [&] { return runner.asked_to_end(); });
  if (!used) {
    report.unanswered = true;
    conclude(arguments, report, console);
    // A driver's call cannot be stopped: its thread and data are left to the kernel.
    std::_Exit(report.exit.status);
  }
  if (!used->ok()) return std::move(*used).error();
  report.used = **std::move(used);
  if (const auto before = meter.before()) note_other_processes(*before, report);
  report.ledger = command_ledger(meter.readings(), report.used, step);
  const bool asking = add_emissions(arguments.carbon, runner, report);
  if (!meter.stop() || asking) {
    conclude(arguments, report, console);
    std::_Exit(report.exit.status);
  }
  return report;
}

Status check_appendable(const std::string& file) {
  if (::access(file.c_str(), F_OK) != 0) return check_writable(file);
  if (::access(file.c_str(), W_OK) == 0) return ok_status();
  return Error::io(file, "cannot be written: " + std::generic_category().message(errno));
}

Result<Outcome> run(const RunArguments& arguments, const std::vector<std::string>& command,
                    Console& console) {
  if (command.empty()) {
    return Error::invalid("the command is missing: harpe run -- python train.py");
  }
  HARPE_TRY(check_source(arguments.carbon));
  if (!arguments.out.empty()) HARPE_TRY(check_writable(arguments.out));
  if (!arguments.csv.empty()) HARPE_TRY(check_appendable(arguments.csv));
  const RunReport report = HARPE_TRY(measure_command(arguments, command, console));
  conclude(arguments, report, console);
  return Outcome{.text = {}, .json = {}, .status = report.exit.status};
}

}  // namespace

void add_run_command(Commands& commands) {
  const auto arguments = std::make_shared<RunArguments>();
  CLI::App& app = commands.add(
      commands.root(), "run",
      "measure the energy and time of a command\n"
      "Runs the command and prints on standard error the energy that all GPUs and CPUs used while "
      "it ran, with an error bar and the source of every figure. The command keeps its terminal, "
      "output, environment and signals. The exit status is the command's: 128 + signal if a "
      "signal ended it, 127 if it is not found, 126 if it cannot be executed; in the last two "
      "cases nothing is reported. Programs should read the report from a file (--out), because "
      "the command also writes to standard error. Without any device, only the time is measured.\n"
      "With --optimize, Harpe chooses the clock or power limit of the GPUs while the command "
      "runs, sets it through the node's agent, and restores it afterwards. If nothing may be set, "
      "Harpe measures the command and advises a setting.",
      "harpe run -- python train.py\n"
      "harpe run --gpus 0,1 --carbon DE -- ./train --steps 100\n"
      "harpe run --carbon uk:13 --out report.json -- python train.py\n"
      "harpe run --carbon 302.5 --embodied 150kg/5y --csv runs.csv -- make\n"
      "harpe run --optimize energy --max-slowdown 3% -- python train.py\n"
      "harpe run --json --out report.json -- sleep 5",
      [arguments, &commands](Console& console) {
        return run(*arguments, commands.following_command(), console);
      });
  commands.let_command_follow(app, "The command to run and its arguments");
  commands.leave_output_to_command(app);
  add_device_options(app, arguments->devices);
  add_tuning_options(app, arguments->tuning);
  SourceArguments& source = arguments->carbon.source;
  add_parsed(app, "--carbon", "SOURCE",
             "Add the CO2 equivalent of each interval. Source of intensities: g/kWh, a country's "
             "code (its yearly mean), or a provider, queried after the command has ended "
             "(docs/carbon-sources.md)",
             source.source, [&source](const std::string& text) {
               source.text = text;
               return carbon::parse_source(text);
             });
  app.add_flag("--offline", source.offline, "Use only the cache and files; query no provider");
  add_parsed(app, "--embodied", "KG/LIFETIME",
             "Add the share of the emissions of making each GPU: 150kg/5y is 150 kg written off "
             "over 5 years of use",
             arguments->embodied, parse_embodied);
  add_text(app, "--csv", "FILE", "Append a row for this run (see docs/measuring.md)",
           arguments->csv);
  add_text(app, "--out", "FILE", "Write the report as JSON to this file", arguments->out);
  app.get_option("--json")->description(
      "Print the report or the error as JSON on standard error (standard output is the "
      "command's). With --out, write the report only to that file");
}

}  // namespace harpe::command
