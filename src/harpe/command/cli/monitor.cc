#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/json_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/device_options.h"
#include "harpe/command/cli/live_terminal.h"
#include "harpe/command/cli/measure_output.h"
#include "harpe/command/cli/monitor_live.h"
#include "harpe/command/cli/monitor_look.h"
#include "harpe/command/cli/monitor_view.h"
#include "harpe/command/cli/terminal_text.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/interrupt.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/quantity_text.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/device/measure/energy_log.h"
#include "harpe/device/measure/energy_monitor.h"

namespace harpe {
namespace {

struct MonitorArguments {
  DeviceArguments devices;
  Seconds interval{1};
  int count = 0;  ///< 0: until interrupted
  Seconds duration{0};
  bool csv = false;
};

constexpr const char* kWindow = "monitor";
// Counters step every 100 ms: before, the first look would say nothing.
constexpr Seconds kFirstLook{0.2};
constexpr Seconds kLongestSettling{1};  // of sensors at the end
constexpr Seconds kLongestStop{2};      // a call that takes longer is not waited for at the end

/// Looks as lines, or for programs.
class Printer {
 public:
  Printer(bool csv, bool simulated, Console& console)
      : csv_(csv), simulated_(simulated), console_(console) {}

  void show(const Look& look) {
    std::ostream& out = console_.out;
    if (console_.json) {
      out << json_line(monitor_json(look, simulated_)) << '\n';
    } else if (csv_) {
      if (!shown_) out << kMonitorCsvHeading;
      out << monitor_csv(look);
    } else {
      out << monitor_line(look, time_of_day());
    }
    out.flush();
    shown_ = true;
  }

 private:
  bool csv_, simulated_;
  Console& console_;
  bool shown_ = false;
};

/// \param views  must outlive the monitor
MonitorOptions options_of(const MonitorArguments& arguments, GpuViews& views) {
  MonitorOptions options;
  // Often enough to see when counters step, and no more: a GPU that is asked all the time does not
  // sleep.
  options.rate = std::clamp(10.0 / arguments.interval.value, 10.0, 50.0);
  options.cpu_interval = {std::clamp(arguments.interval.value, 0.1, 15.0)};
  options.reasons_interval = arguments.interval;
  options.patience = {std::clamp(arguments.interval.value / 4, 0.05, 0.5)};
  options.look = [&views](std::size_t position, Gpu& gpu) { views.read(position, gpu); };
  options.look_interval = arguments.interval / 2;
  return options;
}

Error nothing_to_watch(const Devices& devices) {
  std::string text = "there is no GPU and no CPU energy counter to watch";
  for (const BackendState& backend : devices.backends) {
    text += "\n  " + backend.name + ": " + backend.detail;
  }
  return Error::of(ErrorCode::kUnavailable, text + "\n" + simulation_hint("monitor"));
}

/// A line for each look, until a signal or the arguments end it; what the last one saw, if nothing
/// has passed since.
Result<std::optional<WindowEnergy>> print_looks(const MonitorArguments& arguments,
                                                EnergyMonitor& monitor, const GpuViews& views,
                                                bool simulated, InterruptScope& interrupts,
                                                Console& console) {
  Printer printer(arguments.csv, simulated, console);
  Looker looker(monitor, views, kWindow);
  Clock& clock = system_clock();
  const Instant start = clock.now();
  const Seconds first = std::max(arguments.interval, kFirstLook);
  const double end = arguments.duration.value > 0 ? arguments.duration.value : 1e18;
  for (int round = 0;; ++round) {
    const double next = std::min(first.value + round * arguments.interval.value, end);
    if (interrupts.wait({std::max(0.0, next - (clock.now() - start).value)})) {
      return std::optional<WindowEnergy>();
    }
    Look look = HARPE_TRY(looker.now());
    printer.show(look);
    const bool counted = arguments.count > 0 && round + 1 >= arguments.count;
    if (!console.out || counted || next >= end - 1e-9) return std::optional(std::move(look.window));
  }
}

void print_summary(const WindowEnergy& used, Console& console) {
  const int columns = console.out_is_terminal ? terminal_size().columns : 0;
  std::string text = energy_table(used, columns, console.colour_out);
  for (const std::string& line : energy_remarks(used)) text += wrapped_text(line, columns);
  console.out << "\n" << seconds_text(used.time.value) << "\n";
  console.out << (console.utf8 || !console.out_is_terminal ? text : ascii_text(text));
}

Result<Outcome> run_monitor(const MonitorArguments& arguments, Console& console) {
  if (arguments.csv && console.json) {
    return Error::invalid("--csv and --json exclude each other: take one of them");
  }
  ChosenDevices chosen = HARPE_TRY(open_chosen_devices(arguments.devices));
  std::vector<Gpu*> gpus;
  for (const int gpu : chosen.gpus) {
    gpus.push_back(chosen.devices.gpus[static_cast<std::size_t>(gpu)].get());
  }
  std::vector<Cpu*> cpus;
  for (const auto& cpu : chosen.devices.cpus) cpus.push_back(cpu.get());
  if (gpus.empty() && cpus.empty()) return nothing_to_watch(chosen.devices);

  const bool live = console.out_is_terminal && !console.json && !arguments.csv;
  const bool simulated = any_simulated(chosen);
  // Before the sampling threads, which must leave signals to them.
  std::optional<LiveTerminal> terminal;
  std::optional<InterruptScope> interrupts;
  if (live) {
    terminal.emplace(console);
  } else {
    interrupts.emplace();
  }
  GpuViews views(gpus.size(), live);
  auto monitor =
      HARPE_TRY(EnergyMonitor::start(gpus, cpus, options_of(arguments, views), system_clock()));
  HARPE_TRY(monitor->begin(kWindow));
  for (const std::string& note : chosen.notes) console.err << "note: " << note << '\n';
  if (simulated && !console.json) console.err << kSimulatedRemark << '\n';

  std::optional<WindowEnergy> used;
  if (live) {
    const LiveMonitorOptions options{.first = std::max(arguments.interval, kFirstLook),
                                     .interval = arguments.interval,
                                     .count = arguments.count,
                                     .duration = arguments.duration,
                                     .simulated = simulated};
    const Status shown =
        show_live_monitor(*monitor, views, *terminal, options, console, system_clock());
    terminal->leave();
    HARPE_TRY(shown);
  } else {
    used = HARPE_TRY(print_looks(arguments, *monitor, views, simulated, *interrupts, console));
  }
  if (!used) used = HARPE_TRY(end_settled(*monitor, kWindow, kLongestSettling, system_clock()));
  if (!console.json && !arguments.csv) print_summary(*used, console);
  if (!monitor->stop(kLongestStop)) {
    // Nothing ends a driver's call: its thread, and what it works with, are left to the kernel.
    console.out << std::flush;
    console.err << std::flush;
    std::_Exit(0);
  }
  return Outcome{};
}

Result<Seconds> parse_interval(std::string_view text) {
  Result<Seconds> time = parse_seconds(text);
  if (time.ok() && (time->value < 0.02 || time->value > 3600)) {
    return Error::invalid("expected 20 ms to an hour, found " + in_quotes(text));
  }
  return time;
}

Result<Seconds> parse_time_above_0(std::string_view text) {
  Result<Seconds> time = parse_seconds(text);
  if (time.ok() && time->value <= 0) {
    return Error::invalid("expected a time above 0, found " + in_quotes(text));
  }
  return time;
}

}  // namespace

void add_monitor_command(Commands& commands) {
  const auto arguments = std::make_shared<MonitorArguments>();
  CLI::App& app = commands.add(
      commands.root(), "monitor",
      "watch power and energy of GPUs and CPUs\n"
      "On a terminal a screen that fits it, with what runs on each GPU: h shows its keys, q ends "
      "it. "
      "Elsewhere every look is a line. --csv and --json are for programs: one row a device, one "
      "JSON object a line. The first look comes after one interval. Ctrl-C ends it with a summary.",
      "harpe monitor\n"
      "harpe monitor --gpus 0 --interval 250ms\n"
      "harpe monitor --csv --duration 60s > power.csv\n"
      "harpe monitor --json --count 1",
      [arguments](Console& console) { return run_monitor(*arguments, console); });
  add_device_options(app, arguments->devices);
  add_parsed(app, "--interval", "SECONDS", "Between two looks (default 1s)", arguments->interval,
             parse_interval);
  add_parsed(app, "--count", "N", "End after so many looks", arguments->count,
             [](std::string_view text) { return parse_count(text, 1, 1'000'000'000); });
  add_parsed(app, "--duration", "SECONDS", "End after this long", arguments->duration,
             parse_time_above_0);
  app.add_flag("--csv", arguments->csv, "Print CSV, one row a device and look");
}

}  // namespace harpe
