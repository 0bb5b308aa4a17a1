#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <ostream>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/cli/command.h"
#include "harpe/cli/device_options.h"
#include "harpe/cli/interrupt.h"
#include "harpe/cli/measure_output.h"
#include "harpe/cli/options.h"
#include "harpe/cli/quantity_text.h"
#include "harpe/cli/table.h"
#include "harpe/hw/system_clock.h"
#include "harpe/measure/energy_log.h"
#include "harpe/measure/energy_monitor.h"

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

/// What a GPU shows at one moment beside its energy. What cannot be read is empty.
struct GpuView {
  std::optional<Watts> power, limit;
  std::optional<Megahertz> clock, memory_clock;
  std::optional<double> temperature, utilisation;
  std::optional<EventReasons> reasons;
};

template <class T>
std::optional<T> value_of(Result<T> result) {
  if (!result.ok()) return std::nullopt;
  return std::move(result).value();
}

GpuView look(Gpu& gpu) {
  GpuView view;
  view.power = value_of(gpu.instant_power());
  if (!view.power) view.power = value_of(gpu.average_power());
  view.limit = value_of(gpu.enforced_power_limit());
  if (!view.limit) view.limit = value_of(gpu.power_limit());
  view.clock = value_of(gpu.clock(ClockDomain::kGraphics));
  view.memory_clock = value_of(gpu.clock(ClockDomain::kMemory));
  view.temperature = value_of(gpu.temperature());
  view.utilisation = value_of(gpu.utilisation());
  view.reasons = value_of(gpu.event_reasons());
  return view;
}

/// One look at all devices: energy since the start, and power since the look before.
struct Look {
  WindowEnergy window;
  std::vector<GpuView> gpus;               ///< as the first devices of `window`
  std::vector<std::optional<Watts>> mean;  ///< of each device since the look before
};

std::string number(const std::optional<double>& value, int decimals) {
  return value ? fixed(*value, decimals) : "-";
}
std::string watts(const std::optional<Watts>& power, int decimals) {
  return power ? fixed(power->value, decimals) : "-";
}
std::string megahertz(const std::optional<Megahertz>& clock) {
  return clock ? std::to_string(clock->value) : "-";
}
std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  char text[32];
  ::localtime_r(&now, &local);
  std::strftime(text, sizeof text, "%H:%M:%S", &local);
  return text;
}

std::string joules_text(const EnergyEstimate& energy) {
  return energy.source == EnergySource::kNone ? "-" : energy_text(energy);
}

std::string view_text(const Look& look, bool coloured) {
  Table table{.rows = {{"device", "name", "power W", "limit W", "since start", "MHz", "mem MHz",
                        "C", "busy %", "held back by"}}};
  table.left = 2;
  for (std::size_t i = 0; i < look.window.devices.size(); ++i) {
    const DeviceEnergy& device = look.window.devices[i];
    if (i < look.gpus.size()) {
      const GpuView& gpu = look.gpus[i];
      std::string reasons = gpu.reasons ? gpu.reasons->text() : "-";
      if (device.fault) reasons = "fault: " + device.fault->text().substr(0, 40);
      std::optional<double> busy = gpu.utilisation;
      if (busy) *busy *= 100;
      table.rows.push_back({device.label(), device.name, watts(gpu.power, 1), watts(gpu.limit, 0),
                            joules_text(device.energy), megahertz(gpu.clock),
                            megahertz(gpu.memory_clock), number(gpu.temperature, 0),
                            number(busy, 0), reasons});
    } else {
      table.rows.push_back({device.label(), device.name, watts(look.mean[i], 1), "",
                            joules_text(device.energy), "", "", "", "",
                            device.fault ? device.fault->text().substr(0, 60) : ""});
    }
  }
  return table.text(coloured);
}

std::string line_text(const Look& look) {
  std::string text = time_of_day();
  for (std::size_t i = 0; i < look.window.devices.size(); ++i) {
    const DeviceEnergy& device = look.window.devices[i];
    const std::optional<Watts> power =
        i < look.gpus.size() && look.gpus[i].power ? look.gpus[i].power : look.mean[i];
    text += "  " + device.label() + " " + watts(power, 1) + " W";
    if (i < look.gpus.size()) text += " " + megahertz(look.gpus[i].clock) + " MHz";
    if (device.fault) text += " (fault)";
  }
  return text + "  total " + joules_text(look.window.total()) + "\n";
}

constexpr const char* kCsvHeading =
    "time_s,device,name,power_w,energy_j,energy_error_j,source,clock_mhz,memory_clock_mhz,"
    "temperature_c,utilisation,power_limit_w,event_reasons\n";

std::string csv_rows(const Look& look) {
  std::string text;
  for (std::size_t i = 0; i < look.window.devices.size(); ++i) {
    const DeviceEnergy& device = look.window.devices[i];
    const bool is_gpu = i < look.gpus.size();
    const GpuView view = is_gpu ? look.gpus[i] : GpuView{};
    const auto cell = [](const std::string& value) { return value == "-" ? "" : value; };
    const bool told = device.energy.source != EnergySource::kNone;
    text += fixed(look.window.time.value, 6) + "," + device.label() + "," + csv_cell(device.name) +
            "," + cell(watts(view.power ? view.power : look.mean[i], 3)) + "," +
            (told ? fixed(device.energy.energy.value, 3) : "") + "," +
            (told ? fixed(device.energy.error.value, 3) : "") + "," +
            csv_cell(std::string(source_name(device.energy.source))) + "," +
            cell(megahertz(view.clock)) + "," + cell(megahertz(view.memory_clock)) + "," +
            cell(number(view.temperature, 1)) + "," + cell(number(view.utilisation, 3)) + "," +
            cell(watts(view.limit, 1)) + "," +
            (view.reasons && view.reasons->bits != 0 ? csv_cell(view.reasons->text()) : "") + "\n";
  }
  return text;
}

Json look_json(const Look& look, bool simulated) {
  Json document = energy_json(look.window);
  document["simulated"] = simulated;
  const auto or_null = [](const auto& value) { return value ? Json(value->value) : Json(); };
  for (std::size_t i = 0; i < look.window.devices.size(); ++i) {
    Json& entry = document["devices"][i];
    entry["power_w"] = or_null(look.mean[i]);
    if (i >= look.gpus.size()) continue;
    const GpuView& gpu = look.gpus[i];
    entry["power_w"] = or_null(gpu.power);
    entry["power_limit_w"] = or_null(gpu.limit);
    entry["clock_mhz"] = or_null(gpu.clock);
    entry["memory_clock_mhz"] = or_null(gpu.memory_clock);
    entry["temperature_c"] = gpu.temperature ? Json(*gpu.temperature) : Json();
    entry["utilisation"] = gpu.utilisation ? Json(*gpu.utilisation) : Json();
    entry["event_reasons_now"] = gpu.reasons ? Json(gpu.reasons->text()) : Json();
  }
  return document;
}

class Session {
 public:
  Session(const MonitorArguments& arguments, const ChosenDevices& chosen, EnergyMonitor& monitor,
          Console& console)
      : arguments_(arguments),
        monitor_(monitor),
        console_(console),
        simulated_(any_simulated(chosen)),
        in_place_(console.colour_out && !console.json) {}

  Result<Look> look_now() {
    Result<WindowEnergy> window = monitor_.so_far(kWindow);
    if (!window.ok()) return std::move(window).error();
    Look now{.window = *std::move(window), .gpus = {}, .mean = {}};
    for (std::size_t i = 0; i < monitor_.gpus().size(); ++i) {
      monitor_.use_gpu(i, [&](Gpu& gpu) { now.gpus.push_back(look(gpu)); });
    }
    for (std::size_t i = 0; i < now.window.devices.size(); ++i) {
      const EnergyEstimate& energy = now.window.devices[i].energy;
      const Seconds time = now.window.time - time_before_;
      std::optional<Watts> mean;
      if (energy.source != EnergySource::kNone && i < before_.size() && time.value > 0) {
        mean = std::max(Watts{0}, (energy.energy - before_[i]) / time);
      }
      now.mean.push_back(mean);
    }
    before_.clear();
    for (const DeviceEnergy& device : now.window.devices) before_.push_back(device.energy.energy);
    time_before_ = now.window.time;
    return now;
  }

  void show(const Look& look) {
    std::ostream& out = console_.out;
    if (console_.json) {
      out << look_json(look, simulated_).dump(-1, ' ', false, Json::error_handler_t::replace)
          << '\n';
    } else if (arguments_.csv) {
      if (!shown_) out << kCsvHeading;
      out << csv_rows(look);
    } else if (in_place_) {
      const std::string text = heading(look) + view_text(look, true);
      if (shown_) out << "\x1b[" << lines_ << "A\x1b[J";
      lines_ = std::ranges::count(text, '\n');
      out << text;
    } else {
      out << line_text(look);
    }
    out.flush();
    shown_ = true;
  }

  bool simulated() const { return simulated_; }

 private:
  std::string heading(const Look& look) const {
    return painted("harpe monitor", Paint::kBold, true) + "  " + time_of_day() + "  since " +
           fixed(look.window.time.value, 0) + " s  total " + joules_text(look.window.total()) +
           (simulated_ ? "  SIMULATED" : "") + "  (Ctrl-C ends)\n";
  }

  const MonitorArguments& arguments_;
  EnergyMonitor& monitor_;
  Console& console_;
  bool simulated_;
  bool in_place_;  ///< on a terminal the view replaces itself
  bool shown_ = false;
  std::ptrdiff_t lines_ = 0;
  std::vector<Joules> before_;
  Seconds time_before_{0};
};

Result<Outcome> run_monitor(const MonitorArguments& arguments, Console& console) {
  Result<ChosenDevices> chosen = open_chosen_devices(arguments.devices);
  if (!chosen.ok()) return std::move(chosen).error();
  std::vector<Gpu*> gpus;
  for (const int gpu : chosen->gpus) {
    gpus.push_back(chosen->devices.gpus[static_cast<std::size_t>(gpu)].get());
  }
  std::vector<Cpu*> cpus;
  for (const auto& cpu : chosen->devices.cpus) cpus.push_back(cpu.get());
  if (gpus.empty() && cpus.empty()) {
    std::string text = "there is no GPU and no CPU energy counter to watch";
    for (const BackendState& backend : chosen->devices.backends) {
      text += "\n  " + backend.name + ": " + backend.detail;
    }
    return Error::of(ErrorCode::kUnavailable, text);
  }

  InterruptScope interrupts;  // before the sampling thread
  MonitorOptions options;
  // Often enough to see when counters step, and no more: a GPU that is asked all the time does not
  // sleep.
  options.rate = std::clamp(10.0 / arguments.interval.value, 10.0, 50.0);
  options.cpu_interval = {std::clamp(arguments.interval.value, 0.1, 15.0)};
  options.reasons_interval = arguments.interval;
  auto monitor = EnergyMonitor::start(gpus, cpus, options, system_clock());
  if (!monitor.ok()) return std::move(monitor).error();
  if (Status status = (*monitor)->begin(kWindow); !status.ok()) return std::move(status).error();
  for (const std::string& note : chosen->notes) console.err << "note: " << note << '\n';
  Session session(arguments, *chosen, **monitor, console);
  if (session.simulated() && !console.json) console.err << kSimulatedRemark << '\n';

  Clock& clock = system_clock();
  const Instant start = clock.now();
  for (int round = 0;; ++round) {
    const Result<Look> look = session.look_now();
    if (!look.ok()) return look.error();
    session.show(*look);
    const double next = (round + 1) * arguments.interval.value;
    const double end = arguments.duration.value > 0 ? arguments.duration.value : next;
    if (!console.out || (arguments.count > 0 && round + 1 >= arguments.count)) break;
    if (interrupts.wait({std::max(0.0, std::min(next, end) - (clock.now() - start).value)})) break;
    if (next > end + 1e-9) break;  // the summary is the last look
  }
  const Result<WindowEnergy> used = (*monitor)->end(kWindow);
  if (!used.ok()) return used.error();
  if (!console.json && !arguments.csv) {
    console.out << "\n"
                << seconds_text(used->time.value) << "\n"
                << energy_table(*used, console.colour_out);
    for (const std::string& line : energy_remarks(*used)) console.out << line << "\n";
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

}  // namespace

void add_monitor_command(Commands& commands) {
  const auto arguments = std::make_shared<MonitorArguments>();
  CLI::App& app = commands.add(
      commands.root(), "monitor",
      "watch power and energy of GPUs and CPUs\n"
      "On a terminal the view replaces itself; elsewhere every look is a line. --csv and --json "
      "are for programs: one row a device, one JSON object a line. Ctrl-C ends it with a summary.",
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
             [](std::string_view text) { return parse_seconds(text); });
  app.add_flag("--csv", arguments->csv, "Print CSV, one row a device and look");
}

}  // namespace harpe
