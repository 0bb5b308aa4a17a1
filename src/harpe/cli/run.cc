#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <set>
#include <utility>

#include "harpe/base/file.h"
#include "harpe/base/text.h"
#include "harpe/carbon/intensity.h"
#include "harpe/cli/cli.h"
#include "harpe/cli/command_meter.h"
#include "harpe/cli/command_tuning.h"
#include "harpe/cli/device_options.h"
#include "harpe/cli/measure_output.h"
#include "harpe/cli/run_child.h"
#include "harpe/cli/shell_words.h"
#include "harpe/cli/tuning_view.h"
#include "harpe/command/options.h"
#include "harpe/hw/system_clock.h"
#include "harpe/measure/energy_log.h"
#include "harpe/measure/energy_monitor.h"
#include "harpe/plan_cli/fitted_table.h"
#include "harpe/plan_cli/table.h"
#include "harpe/tuning/tuning_json.h"

namespace harpe {
namespace {

struct RunArguments {
  DeviceArguments devices;
  TuningArguments tuning;
  std::optional<CarbonIntensity> carbon;
  std::optional<EmbodiedCarbon> embodied;
  std::string csv, out;
};

/// All that is to be said when the command has ended.
struct RunReport {
  std::vector<std::string> command;
  ChildExit exit;
  WindowEnergy used;
  std::vector<std::string> notes;
  std::vector<BackendState> backends;
  bool simulated = false;
  bool unanswered = false;  ///< a driver did not answer after the command
  std::optional<CarbonIntensity> carbon;
  std::optional<EmbodiedCarbon> embodied;
  std::optional<TuningReport> tuning = {};

  int gpus() const {
    return static_cast<int>(
        std::ranges::count(used.devices, DeviceEnergy::Kind::kGpu, &DeviceEnergy::kind));
  }
  Grams embodied_share_of_all() const {
    return embodied_share(*embodied, used.time) * static_cast<double>(gpus());
  }
};

std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : "SIG" + std::string(name);
}

std::string end_text(const ChildExit& exit) {
  if (exit.signal != 0) return "ended by " + signal_text(exit.signal);
  if (exit.status != 0) return "exit status " + std::to_string(exit.status);
  return "";
}

std::string grams_text(Grams grams) {
  if (grams.value >= 1000) return fixed(grams.value / 1000, 3) + " kg";
  return fixed(grams.value, grams.value < 1 ? 4 : 2) + " g";
}

std::vector<std::string> carbon_lines(const RunReport& report, const EnergyEstimate& total) {
  std::vector<std::string> lines;
  if (report.carbon && total.source != EnergySource::kNone) {
    const CarbonIntensity& intensity = *report.carbon;
    lines.push_back(grams_text(emissions(total.energy, intensity)) + " CO2eq of operation, at " +
                    shortest(intensity.grams_per_kwh) + " g/kWh (" +
                    (intensity.zone.empty() ? "" : intensity.zone + ", ") +
                    std::string(text_of(intensity.kind)) +
                    (intensity.source.empty() ? "" : ", " + intensity.source) + ")");
  }
  if (report.embodied && report.gpus() > 0) {
    lines.push_back(grams_text(report.embodied_share_of_all()) + " CO2eq embodied: the share of " +
                    std::to_string(report.gpus()) + " GPU" + (report.gpus() == 1 ? "" : "s") +
                    " of " + shortest(report.embodied->mass.value / 1000) +
                    " kg each that falls on this time");
  }
  return lines;
}

/// Why there is no energy, and what would help.
std::string nothing_text(const RunReport& report, int columns) {
  if (report.unanswered) {
    return "Only the time was measured: a driver did not answer after the command had ended.\n";
  }
  const bool none = report.used.devices.empty();
  std::string text = wrapped_text(
      none
          ? "Only the time was measured: there is no GPU here, and no CPU whose energy can be read."
          : "Only the time was measured: no device gave its energy meanwhile.",
      columns);
  for (const BackendState& backend : report.backends) {
    text += wrapped_text("  " + backend.name + ": " + backend.detail, columns, 4);
  }
  if (report.carbon) text += "Without energy there is no CO2 to state.\n";
  if (report.used.devices.empty())
    text += simulation_hint("run", " -- " + shell_text(report.command));
  return text;
}

std::string report_text(const RunReport& report, int columns, bool coloured) {
  const EnergyEstimate total = total_of(report.used);
  const std::string end = end_text(report.exit);
  std::string text = "\n" + painted("harpe run:", Paint::kBold, coloured) + " " +
                     shell_text(report.command) + (end.empty() ? "" : " (" + end + ")") + "\n" +
                     seconds_text(report.used.time.value);
  if (total.source == EnergySource::kNone) {
    text += "\n" + nothing_text(report, columns);
  } else {
    text += ", " + energy_text(total);
    text += error_known(total) ? ", " + fixed(total.mean_power().value, 1) + " W\n" : "\n";
    text += energy_table(report.used, columns, coloured);
    for (const std::string& line : carbon_lines(report, total)) text += wrapped_text(line, columns);
  }
  for (const std::string& line : energy_remarks(report.used)) text += wrapped_text(line, columns);
  if (report.tuning) text += tuning_text(*report.tuning, columns, coloured);
  for (const std::string& note : report.notes) text += wrapped_text(note, columns);
  if (report.simulated) text += painted(kSimulatedRemark, Paint::kBold, coloured) + "\n";
  return text;
}

std::string report_json(const RunReport& report) {
  Json document = {
      {"command", report.command},
      {"exit_status", report.exit.status},
      {"signal", report.exit.signal == 0 ? Json() : Json(signal_text(report.exit.signal))},
      {"simulated", report.simulated}};
  document.update(energy_json(report.used));
  const EnergyEstimate total = total_of(report.used);
  document["carbon"] = nullptr;
  if (report.carbon && total.source != EnergySource::kNone) {
    document["carbon"] = {{"grams", emissions(total.energy, *report.carbon).value},
                          {"grams_per_kwh", report.carbon->grams_per_kwh},
                          {"kind", text_of(report.carbon->kind)},
                          {"zone", report.carbon->zone},
                          {"source", report.carbon->source}};
  }
  document["embodied"] = nullptr;
  if (report.embodied && report.gpus() > 0) {
    document["embodied"] = {{"grams", report.embodied_share_of_all().value},
                            {"grams_per_gpu", report.embodied->mass.value},
                            {"lifetime_s", report.embodied->lifetime.value}};
  }
  if (report.tuning) document["optimize"] = tuning_json(*report.tuning);
  document["notes"] = report.notes;
  Json backends = Json::array();
  for (const BackendState& backend : report.backends) {
    backends.push_back(
        {{"name", backend.name}, {"available", backend.available}, {"detail", backend.detail}});
  }
  document["backends"] = std::move(backends);
  return json_text(document);
}

/// How long the command waits for the devices to be read before it, and its end for them after.
constexpr Seconds kLongestStart{0.6}, kLongestEnd{30};

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
    std::string ids;
    for (const std::int64_t id : others) ids += (ids.empty() ? "" : ", ") + std::to_string(id);
    report.notes.push_back(device.label() +
                           " is shared: its energy includes that of other processes (" + ids + ")");
  }
}

/// Where the report goes: as JSON to --out; to standard error as text, or with --json and no file
/// for it as JSON. The exit status stays the command's, whatever happens to the report.
void tell(const RunArguments& arguments, const RunReport& report, Console& console) {
  const auto complain = [&](const Status& status) {
    console.err << painted("error:", Paint::kRed, console.colour_err) << ' '
                << status.error().text() << '\n';
  };
  if (!arguments.csv.empty()) {
    const Status status = EnergyLog(arguments.csv).append(report.used);
    if (!status.ok()) complain(status);
  }
  bool in_file = false;
  if (!arguments.out.empty()) {
    const Status status = write_file(arguments.out, report_json(report));
    if (!status.ok()) complain(status);
    in_file = status.ok();
  }
  if (!console.json) {
    const int columns = console.show_progress ? terminal_size(STDERR_FILENO).columns : 0;
    console.err << report_text(report, columns, console.colour_err);
  } else if (!in_file) {
    console.err << report_json(report);
  }
  console.err << std::flush;
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
  CommandMeter meter(std::move(gpus), std::move(cpus), system_clock(), shell_text(command));
  meter.prepare(kLongestStart);
  RunReport report{.command = command,
                   .exit = {},
                   .used = {},
                   .notes = chosen.notes,
                   .backends = chosen.devices.backends,
                   .simulated = any_simulated(chosen),
                   .carbon = arguments.carbon,
                   .embodied = arguments.embodied};
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
  if (meter.hangs()) {
    conclude(arguments, report, console);
    std::_Exit(report.exit.status);
  }
  return report;
}

Result<Outcome> run(const RunArguments& arguments, const std::vector<std::string>& command,
                    Console& console) {
  if (command.empty()) {
    return Error::invalid("the command is missing: harpe run -- python train.py");
  }
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
  add_parsed(app, "--carbon", "ZONE|G_PER_KWH",
             "Add the CO2 equivalent: a country's code (DE, US, WORLD: yearly mean), or g/kWh",
             arguments->carbon, [](const std::string& text) { return parse_intensity(text); });
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
