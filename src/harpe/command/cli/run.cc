#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <set>
#include <system_error>
#include <utility>

#include "harpe/base/file.h"
#include "harpe/base/random_id.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon/intensity.h"
#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/command_ledger.h"
#include "harpe/command/cli/command_meter.h"
#include "harpe/command/cli/command_tuning.h"
#include "harpe/command/cli/device_options.h"
#include "harpe/command/cli/measure_output.h"
#include "harpe/command/cli/run_carbon.h"
#include "harpe/command/cli/run_child.h"
#include "harpe/command/cli/run_report.h"
#include "harpe/command/cli/shell_words.h"
#include "harpe/command/command/kept_result.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/device/measure/energy_log.h"
#include "harpe/device/measure/energy_monitor.h"

namespace harpe {
namespace {

struct RunArguments {
  DeviceArguments devices;
  TuningArguments tuning;
  RunCarbon carbon;
  std::optional<EmbodiedCarbon> embodied;
  std::string csv, out;
};

/// How long the command waits for the devices to be read before it, and its end for them after.
constexpr Seconds kLongestStart{0.6}, kLongestEnd{30};
/// How long a provider of carbon intensity is waited for.
constexpr Seconds kLongestQuestion{20};

/// Processes of others on the GPUs: there before the command began, or still there after it.
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

/// Where the report goes: as JSON to --out; to standard error as text, or with --json and no file
/// for it as JSON. The exit status stays the command's, whatever happens to the report.
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

/// Grams of the command, by the intensities of its time. Whether a thread still asks for them.
bool add_emissions(const RunCarbon& carbon, ChildRunner& runner, RunReport& report) {
  if (!carbon.asked() || !report.measured() || report.ledger.empty()) return false;
  FoundIntensity found =
      find_intensity(carbon, report.ledger.begin(), report.ledger.end(), kLongestQuestion,
                     [&runner] { return runner.asked_to_end(); });
  RunEmissions& emissions = *report.carbon;
  emissions.why = std::move(found.why);
  emissions.intensity = std::move(found.intensity);
  if (emissions.intensity) {
    emissions.account = account_for(report.ledger, emissions.intensity->intensity, {});
  }
  return found.hangs;
}

/// What became of the command, on standard error.
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
  std::vector<Gpu*> gpus;
  for (const int gpu : chosen.gpus) {
    gpus.push_back(chosen.devices.gpus[static_cast<std::size_t>(gpu)].get());
  }
  std::vector<Cpu*> cpus;
  for (const auto& cpu : chosen.devices.cpus) cpus.push_back(cpu.get());

  // Both before any thread: the environment is set, and the signal mask inherited.
  const std::unique_ptr<CommandTuning> tuning =
      HARPE_TRY(CommandTuning::prepare(arguments.tuning, shell_text(command)));
  ChildRunner runner;
  const WholeSeconds step = ledger_step(arguments.carbon);
  CommandMeter meter(std::move(gpus), std::move(cpus), system_clock(), shell_text(command), step);
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
    // Nothing ends a driver's call: its thread, and what it works with, are left to the kernel.
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
      "measure what a command costs\n"
      "Runs the command and prints on standard error what all GPUs and CPUs used meanwhile, with "
      "an error bar and the source of every figure. The command keeps its terminal, its output, "
      "its environment and its signals; the exit status is its own (128 + signal if one ended it, "
      "127 if it is not found, 126 if it cannot be executed; then nothing is reported). Programs "
      "best read the report from a file (--out): standard error is the command's, too. Without any "
      "device only the time is measured.\n"
      "With --optimize the clock or power limit of the GPUs is chosen while the command runs, "
      "through the node's agent, and restored afterwards; where nothing may be set, the command is "
      "measured and a setting advised.",
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
             "Add the CO2 equivalent, interval by interval: g/kWh, a country's code (its yearly "
             "mean), or a provider, asked when the command has ended: docs/carbon-sources.md",
             source.source, [&source](const std::string& text) {
               source.text = text;
               return parse_source(text);
             });
  app.add_flag("--offline", source.offline,
               "Ask no provider: what is in the cache, and files, alone");
  add_parsed(app, "--embodied", "KG/LIFETIME",
             "Add the share of what making each GPU emitted: 150kg/5y is 150 kg written off over "
             "5 years of use",
             arguments->embodied, [](const std::string& text) { return parse_embodied(text); });
  add_text(app, "--csv", "FILE", "Append a row for this run (see docs/measuring.md)",
           arguments->csv);
  add_text(app, "--out", "FILE", "Write the report as JSON there", arguments->out);
  app.get_option("--json")->description(
      "Print the report, or what is wrong, as JSON on standard error (standard output is the "
      "command's); with --out the report is only there");
}

}  // namespace harpe
