#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <sstream>
#include <utility>

#include "harpe/base/json_text.h"
#include "harpe/base/mutex.h"
#include "harpe/base/text.h"
#include "harpe/cli/cli.h"
#include "harpe/cli/device_options.h"
#include "harpe/cli/in_place_view.h"
#include "harpe/cli/interrupt.h"
#include "harpe/cli/measure_output.h"
#include "harpe/cli/monitor_view.h"
#include "harpe/command/console.h"
#include "harpe/command/options.h"
#include "harpe/command/quantity_text.h"
#include "harpe/hw/system_clock.h"
#include "harpe/measure/energy_log.h"
#include "harpe/measure/energy_monitor.h"
#include "harpe/plan_cli/fitted_table.h"
#include "harpe/plan_cli/table.h"

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
constexpr Seconds kLongestStop{2};  // a call that takes longer is not waited for at the end

/// What each GPU showed last. Thread-safe.
class Views {
 public:
  explicit Views(std::size_t gpus) : views_(gpus) {}
  void set(std::size_t position, const GpuView& view) {
    const MutexLock lock(mutex_);
    views_[position] = view;
  }
  std::vector<GpuView> get(std::size_t gpus) const {
    const MutexLock lock(mutex_);
    return {views_.begin(), views_.begin() + static_cast<std::ptrdiff_t>(gpus)};
  }

 private:
  mutable Mutex mutex_;
  std::vector<GpuView> views_ HARPE_GUARDED_BY(mutex_);
};

class Session {
 public:
  Session(const MonitorArguments& arguments, const ChosenDevices& chosen, EnergyMonitor& monitor,
          const Views& views, Console& console)
      : arguments_(arguments),
        monitor_(monitor),
        views_(views),
        console_(console),
        simulated_(any_simulated(chosen)),
        in_place_(console.out_is_terminal && !console.json && !arguments.csv),
        view_(console.out) {}

  Result<Look> look_now() {
    WindowEnergy window = HARPE_TRY(monitor_.so_far(kWindow));
    Look now{.window = std::move(window), .gpus = views_.get(monitor_.gpus().size()), .mean = {}};
    for (std::size_t i = 0; i < now.window.devices.size(); ++i) {
      const EnergyEstimate& energy = now.window.devices[i].energy;
      const Seconds time = now.window.time - time_before_;
      std::optional<Watts> mean;
      if (energy.source != EnergySource::kNone && time.value > 0 && error_known(energy)) {
        const Joules before = i < before_.size() ? before_[i] : Joules{0};
        mean = std::max(Watts{0}, (energy.energy - before) / time);
      }
      now.mean.push_back(mean);
    }
    before_.clear();
    for (const DeviceEnergy& device : now.window.devices) before_.push_back(device.energy.energy);
    time_before_ = now.window.time;
    return now;
  }

  /// Says on a terminal that something happens, before there is anything to show.
  void announce(Seconds first) {
    if (!in_place_) return;
    view_.draw(painted("harpe monitor", Paint::kBold, console_.colour_out) + "  first look in " +
               shortest(first.value) + " s\n");
  }

  void show(const Look& look) {
    std::ostream& out = console_.out;
    if (console_.json) {
      out << json_line(monitor_json(look, simulated_)) << '\n';
    } else if (arguments_.csv) {
      if (!shown_) out << kMonitorCsvHeading;
      out << monitor_csv(look);
    } else if (in_place_) {
      const TerminalSize size = terminal_size();
      // The last line stays free for the cursor.
      view_.draw(heading(look, size.columns) + monitor_view(look, size.columns,
                                                            size.lines > 0 ? size.lines - 2 : 0,
                                                            console_.colour_out));
    } else {
      out << monitor_line(look, time_of_day());
    }
    out.flush();
    shown_ = true;
  }

  bool simulated() const { return simulated_; }

 private:
  std::string heading(const Look& look, int columns) const {
    const std::string rest = "  " + time_of_day() + (simulated_ ? "  SIMULATED" : "") + "  since " +
                             fixed(look.window.time.value, 0) + " s  total " +
                             joules_or_dash(total_of(look.window)) + "  (Ctrl-C ends)";
    constexpr std::string_view kTitle = "harpe monitor";
    const auto room = std::max<std::size_t>(static_cast<std::size_t>(columns), kTitle.size() + 1);
    return painted(kTitle, Paint::kBold, console_.colour_out) + cut_to(rest, room - kTitle.size()) +
           "\n";
  }
  static std::string joules_or_dash(const EnergyEstimate& energy) {
    return energy.source == EnergySource::kNone ? "-" : energy_text(energy);
  }

  const MonitorArguments& arguments_;
  EnergyMonitor& monitor_;
  const Views& views_;
  Console& console_;
  bool simulated_;
  bool in_place_;  ///< on a terminal the view replaces itself
  bool shown_ = false;
  InPlaceView view_;
  std::vector<Joules> before_;
  Seconds time_before_{0};
};

/// \param views  must outlive the monitor
MonitorOptions options_of(const MonitorArguments& arguments, Views& views) {
  MonitorOptions options;
  // Often enough to see when counters step, and no more: a GPU that is asked all the time does not
  // sleep.
  options.rate = std::clamp(10.0 / arguments.interval.value, 10.0, 50.0);
  options.cpu_interval = {std::clamp(arguments.interval.value, 0.1, 15.0)};
  options.reasons_interval = arguments.interval;
  options.patience = {std::clamp(arguments.interval.value / 4, 0.05, 0.5)};
  options.look = [&views](std::size_t position, Gpu& gpu) { views.set(position, view_of(gpu)); };
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

  InterruptScope interrupts;  // before the sampling thread
  Views views(gpus.size());
  auto monitor =
      HARPE_TRY(EnergyMonitor::start(gpus, cpus, options_of(arguments, views), system_clock()));
  HARPE_TRY(monitor->begin(kWindow));
  for (const std::string& note : chosen.notes) console.err << "note: " << note << '\n';
  Session session(arguments, chosen, *monitor, views, console);
  if (session.simulated() && !console.json) console.err << kSimulatedRemark << '\n';

  Clock& clock = system_clock();
  const Instant start = clock.now();
  const Seconds first = std::max(arguments.interval, kFirstLook);
  const double end = arguments.duration.value > 0 ? arguments.duration.value : 1e18;
  session.announce({std::min(first.value, end)});
  std::optional<WindowEnergy> used;  // the last look; other than that after an interrupt
  for (int round = 0;; ++round) {
    const double next = std::min(first.value + round * arguments.interval.value, end);
    used.reset();
    if (interrupts.wait({std::max(0.0, next - (clock.now() - start).value)})) break;
    Look look = HARPE_TRY(session.look_now());
    session.show(look);
    used = std::move(look.window);
    if (!console.out || (arguments.count > 0 && round + 1 >= arguments.count)) break;
    if (next >= end - 1e-9) break;
  }
  if (!used) {
    used = HARPE_TRY(monitor->end(kWindow));
  }
  if (!console.json && !arguments.csv) {
    const int columns = console.out_is_terminal ? terminal_size().columns : 0;
    console.out << "\n"
                << seconds_text(used->time.value) << "\n"
                << energy_table(*used, columns, console.colour_out);
    for (const std::string& line : energy_remarks(*used)) {
      console.out << wrapped_text(line, columns);
    }
  }
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
      "On a terminal the view replaces itself and fits its width; elsewhere every look is a line. "
      "--csv and --json are for programs: one row a device, one JSON object a line. The first look "
      "comes after one interval. Ctrl-C ends it with a summary.",
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
