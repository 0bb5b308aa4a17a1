#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <ostream>
#include <thread>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/cli/command.h"
#include "harpe/cli/device_options.h"
#include "harpe/cli/fitted_table.h"
#include "harpe/cli/json_output.h"
#include "harpe/cli/measure_output.h"
#include "harpe/cli/options.h"
#include "harpe/cli/table.h"

namespace harpe {
namespace {

/// One thing that can be set on a GPU, and whether this user may.
struct Control {
  const char* name;
  Status allowed = ok_status();
};

/// What is shown of one GPU, read once. What cannot be read is empty.
struct GpuView {
  GpuIdentity identity;
  bool chosen = false;
  std::optional<Megahertz> graphics_clock, memory_clock;
  std::optional<std::vector<Megahertz>> graphics_clocks, memory_clocks;
  std::optional<Watts> instant_power, average_power, limit, enforced_limit;
  std::optional<PowerLimitRange> limit_range;
  std::optional<Joules> energy;
  std::string no_energy;  ///< why there is no energy counter
  PowerScope scope = PowerScope::kGpu;
  std::optional<double> temperature, utilisation;
  std::optional<EventReasons> reasons;
  std::optional<bool> persistence_mode;
  std::vector<Control> controls;
  std::optional<Error> lost;  ///< no reading answers any more: what the driver says
  bool hangs = false;         ///< `lost`, because a call to its driver does not return
};

// A GPU whose calls take half a second each is read in this time.
constexpr std::chrono::seconds kLongestReading(10);

/// Whether the device is gone: then nothing else of it is true either.
std::optional<Error> lost(Gpu& gpu) {
  const auto gone = [](const auto& reading) {
    return !reading.ok() && reading.error().code == ErrorCode::kUnavailable;
  };
  const Result<Megahertz> clock = gpu.clock(ClockDomain::kGraphics);
  if (!gone(clock) || !gone(gpu.temperature())) return std::nullopt;
  return clock.error();
}

constexpr const char* kLostAdvice =
    "take the node out of service, look for Xid in the kernel log (dmesg | grep -i xid), try "
    "nvidia-smi --gpu-reset -i GPU once nothing uses it, else restart the machine; a GPU that is "
    "lost again is to be replaced";

/// A control that the GPU has (`has` could be read) may be set if this process may set anything.
template <class T>
Control control(const char* name, const Result<T>& has, const Gpu& gpu) {
  if (!has.ok() && has.error().code == ErrorCode::kNotSupported) return {name, has.error()};
  return {name, gpu.may_set()};
}

GpuView lost_view(GpuView view, const Error& error) {
  view.lost = error;
  for (const char* name : {"graphics clock", "memory clock", "power limit", "persistence mode"}) {
    view.controls.push_back({name, error});
  }
  view.no_energy = error.text();
  return view;
}

GpuView view_of(Gpu& gpu, bool chosen) {
  GpuView view;
  view.identity = gpu.identity();
  view.chosen = chosen;
  view.scope = gpu.power_scope();
  if (const auto error = lost(gpu)) return lost_view(std::move(view), *error);
  auto graphics = gpu.supported_clocks(ClockDomain::kGraphics);
  auto memory = gpu.supported_clocks(ClockDomain::kMemory);
  auto range = gpu.power_limit_range();
  auto persistence = gpu.persistence_mode();
  view.controls = {control("graphics clock", graphics, gpu), control("memory clock", memory, gpu),
                   control("power limit", range, gpu),
                   control("persistence mode", persistence, gpu)};
  view.graphics_clock = value_of(gpu.clock(ClockDomain::kGraphics));
  view.memory_clock = value_of(gpu.clock(ClockDomain::kMemory));
  view.graphics_clocks = value_of(std::move(graphics));
  view.memory_clocks = value_of(std::move(memory));
  view.instant_power = value_of(gpu.instant_power());
  view.average_power = value_of(gpu.average_power());
  view.limit = value_of(gpu.power_limit());
  view.enforced_limit = value_of(gpu.enforced_power_limit());
  view.limit_range = value_of(std::move(range));
  auto energy = gpu.total_energy();
  if (!energy.ok()) view.no_energy = energy.error().text();
  view.energy = value_of(std::move(energy));
  view.temperature = value_of(gpu.temperature());
  view.utilisation = value_of(gpu.utilisation());
  view.reasons = value_of(gpu.event_reasons());
  view.persistence_mode = value_of(std::move(persistence));
  return view;
}

/// Reads all GPUs, each in a thread of its own, so that none waits for the driver of another. Of
/// those that do not answer in time the threads are left behind.
class DeviceViews {
 public:
  struct Wanted {
    Gpu* gpu;
    bool chosen;
  };

  static std::vector<GpuView> of(const std::vector<Wanted>& wanted) {
    const auto views = std::make_shared<DeviceViews>(wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      std::thread([views, i, one = wanted[i]] {
        views->put(i, view_of(*one.gpu, one.chosen));
      }).detach();
    }
    std::unique_lock lock(views->mutex_);
    views->changed_.wait_for(lock, kLongestReading, [&] { return views->missing_ == 0; });
    std::vector<GpuView> result;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (views->views_[i]) {
        result.push_back(*views->views_[i]);
        continue;
      }
      GpuView hung;
      hung.identity = wanted[i].gpu->identity();
      hung.chosen = wanted[i].chosen;
      hung.hangs = true;
      result.push_back(lost_view(
          std::move(hung),
          Error::of(ErrorCode::kUnavailable, "its driver has not answered for " +
                                                 std::to_string(kLongestReading.count()) + " s")));
    }
    return result;
  }

  explicit DeviceViews(std::size_t count) : views_(count), missing_(count) {}

 private:
  void put(std::size_t position, GpuView view) {
    const std::lock_guard lock(mutex_);
    views_[position] = std::move(view);
    missing_ -= 1;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<GpuView>> views_;
  std::size_t missing_;
};

// ---- for people

/// "1410 of 210..1980": the value and what it can be.
std::string of_range(const std::string& now, const std::string& lowest,
                     const std::string& highest) {
  return now + " of " + lowest + ".." + highest;
}

std::string clock_text(const std::optional<Megahertz>& now,
                       const std::optional<std::vector<Megahertz>>& clocks) {
  std::string value = now ? std::to_string(now->value) : "-";
  if (!clocks || clocks->empty()) return value;
  return of_range(value, std::to_string(clocks->front().value),
                  std::to_string(clocks->back().value));
}

std::string watts_text(const std::optional<Watts>& power, int decimals = 0) {
  return power ? fixed(power->value, decimals) : "-";
}

std::string limit_text(const GpuView& gpu) {
  const auto limit = gpu.enforced_limit ? gpu.enforced_limit : gpu.limit;
  if (!gpu.limit_range) return watts_text(limit);
  return of_range(watts_text(limit), watts_text(gpu.limit_range->lowest),
                  watts_text(gpu.limit_range->highest));
}

std::string state_text(const GpuView& gpu) {
  if (gpu.hangs) return "NO ANSWER";
  if (gpu.lost) return "LOST";
  std::string text = gpu.reasons ? gpu.reasons->text() : "-";
  if (gpu.reasons && text.empty()) text = "none";
  return text;
}

std::string gpus_text(const std::vector<GpuView>& gpus, int columns, bool coloured) {
  FittedTable table{
      .columns = {{.heading = "GPU", .left = true},
                  {.heading = "name", .left = true, .rank = 1, .narrowest = 10},
                  {.heading = "PCI", .left = true, .rank = 8},
                  {.heading = "UUID", .left = true, .rank = 5},
                  {.heading = "clock MHz", .left = true, .rank = 2},
                  {.heading = "power W", .left = true, .rank = 6},
                  {.heading = "limit W", .left = true, .rank = 3},
                  {.heading = "energy", .left = true, .rank = 7},
                  {.heading = "persistence", .left = true, .rank = 9},
                  {.heading = "held back by", .left = true, .rank = 4, .narrowest = 12}}};
  for (const GpuView& gpu : gpus) {
    const GpuIdentity& identity = gpu.identity;
    // The beginning tells GPUs apart and is short enough to type.
    std::string uuid = identity.uuid.substr(0, 12);
    if (uuid.size() < identity.uuid.size()) uuid += "...";
    const std::string persistence =
        gpu.persistence_mode ? *gpu.persistence_mode ? "on" : "off" : "-";
    const std::string name = columns > 0 ? short_device_name(identity.name) : identity.name;
    const std::vector<std::string> cells = {
        std::to_string(identity.index),
        (identity.is_mig ? "(MIG) " : "") + name,
        identity.pci,
        uuid,
        clock_text(gpu.graphics_clock, gpu.graphics_clocks),
        watts_text(gpu.instant_power, 1) + (gpu.scope == PowerScope::kModule ? " (module)" : ""),
        limit_text(gpu),
        gpu.lost     ? "-"
        : gpu.energy ? "yes"
                     : "no",
        persistence,
        state_text(gpu)};
    for (std::size_t i = 0; i < cells.size(); ++i) table.columns[i].cells.push_back(cells[i]);
  }
  std::string text = table.text(columns, coloured);
  if (text.find("persistence") == std::string::npos) {
    text += "Wider terminals, and --json, show more of each, such as its UUID.\n";
  }
  return text;
}

/// Controls of all GPUs, those that are alike said once.
std::string controls_text(const std::vector<GpuView>& gpus, int columns) {
  std::string text;
  std::vector<std::pair<std::string, std::string>> said;  // what, "0, 1"
  for (const GpuView& gpu : gpus) {
    std::string may, lines;
    for (const Control& control : gpu.controls) {
      if (control.allowed.ok()) may += (may.empty() ? "" : ", ") + std::string(control.name);
    }
    if (gpu.lost) {
      lines =
          wrapped_text((gpu.hangs ? "  no answer: " : "  lost: ") + gpu.lost->text(), columns, 4) +
          wrapped_text("  what to do: " + std::string(kLostAdvice), columns, 4);
    }
    if (!may.empty()) lines += wrapped_text("  may set: " + may, columns, 4);
    std::vector<std::pair<std::string, std::string>> reasons;  // why, controls
    for (const Control& control : gpu.controls) {
      if (control.allowed.ok() || gpu.lost) continue;
      const std::string why = control.allowed.error().text();
      const auto same = std::ranges::find(reasons, why, [](const auto& r) { return r.first; });
      if (same == reasons.end()) {
        reasons.emplace_back(why, control.name);
      } else {
        same->second += std::string(", ") + control.name;
      }
    }
    for (const auto& [why, names] : reasons) {
      lines += wrapped_text("  not " + names + ": " + why, columns, 4);
    }
    if (!gpu.energy && !gpu.lost) {
      lines += wrapped_text("  no energy: " + gpu.no_energy, columns, 4);
    }
    const std::string index = std::to_string(gpu.identity.index);
    const auto same = std::ranges::find(said, lines, [](const auto& s) { return s.first; });
    if (same == said.end()) {
      said.emplace_back(lines, index);
    } else {
      same->second += ", " + index;
    }
  }
  for (const auto& [lines, indices] : said) {
    text += (indices.find(',') == std::string::npos ? "GPU " : "GPUs ") + indices + "\n" + lines;
  }
  return text;
}

std::string visible_text(const Result<GpuChoice>& visible, int columns) {
  if (!visible.ok()) return "Programs started here: " + visible.error().text() + "\n";
  std::string text = "Programs started here use ";
  if (visible->gpus.empty()) {
    text += "no GPU";
  } else {
    text += visible->gpus.size() == 1 ? "GPU " : "GPUs ";
    for (std::size_t i = 0; i < visible->gpus.size(); ++i) {
      text += (i == 0 ? "" : ", ") + std::to_string(visible->gpus[i]);
    }
  }
  text += ".\n";
  for (const std::string& note : visible->notes) text += wrapped_text("  " + note, columns, 4);
  return text;
}

std::string cpus_text(const Devices& devices) {
  std::string text;
  for (const auto& cpu : devices.cpus) {
    const Result<CpuEnergy> energy = cpu->total_energy();
    text += "CPU " + std::to_string(cpu->index()) + "  " + cpu->name() +
            (cpu->has_dram() ? ", memory metered too" : ", memory not metered") +
            (energy.ok() ? "" : "; cannot be read: " + energy.error().text()) + "\n";
  }
  return text;
}

std::string devices_text(const Devices& devices, const std::vector<GpuView>& gpus,
                         const Result<GpuChoice>& visible, int columns, bool coloured) {
  std::string text;
  if (gpus.empty()) {
    text = "No GPU here.\n";
  } else {
    text = gpus_text(gpus, columns, coloured) + "\n" + controls_text(gpus, columns) + "\n" +
           visible_text(visible, columns);
  }
  text += "\n" + (devices.cpus.empty() ? std::string("No CPU energy here.\n") : cpus_text(devices));
  text += '\n';
  for (const BackendState& backend : devices.backends) {
    text += wrapped_text(
        backend.name + ": " + (backend.available ? "" : "not available: ") + backend.detail,
        columns);
  }
  if (gpus.empty()) {
    text += "\nA missing driver is no fault.\n" + simulation_hint("devices");
  }
  return text;
}

// ---- for programs

Json number(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}
template <class Unit>
Json number(const std::optional<Unit>& value) {
  return value ? Json(value->value) : Json();
}

Json clocks_json(const std::optional<Megahertz>& now,
                 const std::optional<std::vector<Megahertz>>& clocks) {
  Json list;
  if (clocks) {
    list = Json::array();
    for (const Megahertz clock : *clocks) list.push_back(clock.value);
  }
  return {{"now_mhz", number(now)}, {"supported_mhz", std::move(list)}};
}

Json allowed_json(const Status& status) {
  return {{"allowed", status.ok()},
          {"why_not", status.ok() ? Json() : Json(status.error().text())}};
}

Json gpu_json(const GpuView& gpu) {
  Json limit{{"set_w", number(gpu.limit)}, {"enforced_w", number(gpu.enforced_limit)}};
  if (gpu.limit_range) {
    limit["lowest_w"] = gpu.limit_range->lowest.value;
    limit["highest_w"] = gpu.limit_range->highest.value;
    limit["factory_w"] = gpu.limit_range->factory.value;
  }
  Json may_set = Json::object();
  for (const Control& control : gpu.controls) {
    std::string key = control.name;
    std::ranges::replace(key, ' ', '_');
    may_set[key] = allowed_json(control.allowed);
  }
  const GpuIdentity& identity = gpu.identity;
  return {{"index", identity.index},
          {"name", identity.name},
          {"uuid", identity.uuid},
          {"pci", identity.pci},
          {"backend", identity.backend},
          {"mig", identity.is_mig},
          {"chosen", gpu.chosen},
          {"state", gpu.hangs  ? "no_answer"
                    : gpu.lost ? "lost"
                               : "ok"},
          {"fault", gpu.lost ? Json(gpu.lost->text()) : Json()},
          {"graphics_clock", clocks_json(gpu.graphics_clock, gpu.graphics_clocks)},
          {"memory_clock", clocks_json(gpu.memory_clock, gpu.memory_clocks)},
          {"power",
           {{"instant_w", number(gpu.instant_power)},
            {"average_w", number(gpu.average_power)},
            {"scope", gpu.scope == PowerScope::kModule ? "module" : "gpu"}}},
          {"power_limit", std::move(limit)},
          {"energy_counter_j", number(gpu.energy)},
          {"temperature_c", number(gpu.temperature)},
          {"utilisation", number(gpu.utilisation)},
          {"event_reasons", gpu.reasons ? Json(gpu.reasons->text()) : Json()},
          {"persistence_mode", gpu.persistence_mode ? Json(*gpu.persistence_mode) : Json()},
          {"may_set", std::move(may_set)}};
}

Json devices_json(const Devices& devices, const std::vector<GpuView>& gpus,
                  const Result<GpuChoice>& visible) {
  Json gpu_list = Json::array();
  for (const GpuView& gpu : gpus) gpu_list.push_back(gpu_json(gpu));
  Json cpu_list = Json::array();
  for (const auto& cpu : devices.cpus) {
    const Result<CpuEnergy> energy = cpu->total_energy();
    cpu_list.push_back({{"index", cpu->index()},
                        {"name", cpu->name()},
                        {"memory", cpu->has_dram()},
                        {"readable", energy.ok()},
                        {"why_not", energy.ok() ? Json() : Json(energy.error().text())}});
  }
  Json backends = Json::array();
  for (const BackendState& backend : devices.backends) {
    backends.push_back(
        {{"name", backend.name}, {"available", backend.available}, {"detail", backend.detail}});
  }
  Json notes = Json::array();
  if (visible.ok()) {
    for (const std::string& note : visible->notes) notes.push_back(note);
  } else {
    notes.push_back(visible.error().text());
  }
  return {{"gpus", std::move(gpu_list)},
          {"cpus", std::move(cpu_list)},
          {"backends", std::move(backends)},
          {"visible_gpus", visible.ok() ? Json(visible->gpus) : Json()},
          {"notes", std::move(notes)}};
}

Result<Outcome> run_devices(const DeviceArguments& arguments, Console& console) {
  const Devices devices = HARPE_TRY(open_all_devices(arguments));
  const Result<GpuChoice> choice = choose_gpus(arguments, devices);
  // What the environment says wrong is shown; what the user asks for wrongly is refused.
  if (!choice.ok() && !arguments.gpus.empty()) return choice.error();
  const Result<GpuChoice> visible =
      arguments.gpus.empty() ? choice : choose_gpus(DeviceArguments{}, devices);

  std::vector<DeviceViews::Wanted> wanted;
  for (const auto& gpu : devices.gpus) {
    const bool chosen =
        choice.ok() && std::ranges::find(choice->gpus, gpu->identity().index) != choice->gpus.end();
    if (chosen || arguments.gpus.empty()) wanted.push_back({gpu.get(), chosen});
  }
  const std::vector<GpuView> gpus = DeviceViews::of(wanted);
  const int columns = console.out_is_terminal ? terminal_size().columns : 0;
  Outcome outcome{.text = devices_text(devices, gpus, visible, columns, console.colour_out),
                  .json = json_text(devices_json(devices, gpus, visible))};
  if (std::ranges::none_of(gpus, &GpuView::hangs)) return outcome;
  // Nothing ends a driver's call: its thread, and what it works with, are left to the kernel.
  console.out << (console.json ? outcome.json : outcome.text) << std::flush;
  std::_Exit(0);
}

}  // namespace

void add_devices_command(Commands& commands) {
  const auto arguments = std::make_shared<DeviceArguments>();
  CLI::App& app = commands.add(
      commands.root(), "devices",
      "show GPUs and CPUs, what can be read and what may be set\n"
      "Lists every GPU with its clocks, power and limits, which of these this user may set and why "
      "not, the CPU packages whose energy is metered, and what became of each backend. Sets "
      "nothing. A machine without any GPU is no fault.",
      "harpe devices\n"
      "harpe devices --gpus 0-3 --json\n"
      "harpe devices --simulate gpus.toml",
      [arguments](Console& console) { return run_devices(*arguments, console); });
  add_device_options(app, *arguments);
}

}  // namespace harpe
