#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/json_text.h"
#include "harpe/base/mutex.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/result.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/device_options.h"
#include "harpe/command/cli/live_terminal.h"
#include "harpe/command/cli/measure_output.h"
#include "harpe/command/cli/monitor_screen.h"
#include "harpe/command/cli/monitor_view.h"
#include "harpe/command/cli/terminal_text.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/device/measure/energy_monitor.h"
#include "harpe/node/node_client/agent_client.h"

namespace harpe::command {
namespace {

/// The newest view of each GPU. Thread-safe, but each GPU must be read by one thread at a time.
class GpuViews {
 public:
  /// \param all  true to also read the values that only the terminal view shows
  GpuViews(std::size_t gpus, bool all) : all_(all), entries_(gpus) {}

  /// Reads a GPU; called as `MonitorOptions::look`.
  void read(std::size_t position, Gpu& gpu);
  std::vector<GpuView> get(std::size_t gpus) const;
  /// Returns the newest list of processes on each GPU, by the GPU's index.
  std::map<int, std::vector<std::int64_t>> processes() const;

 private:
  struct Entry {
    GpuView view;
    int index = -1;  ///< -1: not read yet
    std::vector<std::int64_t> processes;
  };
  const bool all_;
  mutable Mutex mutex_;
  std::vector<Entry> entries_ HARPE_GUARDED_BY(mutex_);
};

/// Reader of an open window. Not thread-safe.
class Looker {
 public:
  /// `monitor` and `views` must outlive this object.
  Looker(EnergyMonitor& monitor, const GpuViews& views, std::string window)
      : monitor_(monitor), views_(views), window_(std::move(window)) {}

  Result<Look> now();
  /// Restarts the window.
  Status restart();

 private:
  EnergyMonitor& monitor_;
  const GpuViews& views_;
  std::string window_;
  std::vector<Joules> before_;
  Seconds time_before_{0};
};

void GpuViews::read(std::size_t position, Gpu& gpu) {
  Entry entry{.view = view_of(gpu), .index = gpu.identity().index, .processes = {}};
  if (all_) {
    entry.view.memory = value_of(gpu.memory());
    entry.processes = value_of(gpu.processes()).value_or(std::vector<std::int64_t>());
    {
      const MutexLock lock(mutex_);
      entry.view.highest_clock = entries_[position].view.highest_clock;
    }
    if (!entry.view.highest_clock) {  // constant; needs a read of all clocks
      const auto clocks = gpu.supported_clocks(ClockDomain::kGraphics);
      if (clocks.ok() && !clocks->empty()) entry.view.highest_clock = clocks->back();
    }
  }
  const MutexLock lock(mutex_);
  entries_[position] = std::move(entry);
}

std::vector<GpuView> GpuViews::get(std::size_t gpus) const {
  const MutexLock lock(mutex_);
  std::vector<GpuView> views;
  for (std::size_t i = 0; i < gpus; ++i) views.push_back(entries_[i].view);
  return views;
}

std::map<int, std::vector<std::int64_t>> GpuViews::processes() const {
  const MutexLock lock(mutex_);
  std::map<int, std::vector<std::int64_t>> processes;
  for (const Entry& entry : entries_) {
    if (entry.index >= 0) processes[entry.index] = entry.processes;
  }
  return processes;
}

Result<Look> Looker::now() {
  WindowEnergy window = HARPE_TRY(monitor_.so_far(window_));
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

Status Looker::restart() {
  HARPE_TRY(monitor_.begin(window_, true));
  before_.clear();
  time_before_ = {};
  return ok_status();
}

struct LiveMonitorOptions {
  Seconds first{1};     ///< before the first look
  Seconds interval{1};  ///< between looks
  int count = 0;        ///< number of looks; 0 if unlimited
  Seconds duration{0};  ///< longest duration; 0 if unlimited
  bool simulated = false;
};

constexpr const char* kShownWindow = "shown";
constexpr Seconds kBetweenUses{2};

std::string node_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::map<std::string, int> uuids_of(const EnergyMonitor& monitor) {
  std::map<std::string, int> uuids;
  for (const GpuIdentity& gpu : monitor.gpus()) uuids[gpu.uuid] = gpu.index;
  return uuids;
}

constexpr Seconds kPatience{1};

/// A thread that reads the users of GPUs, since the agent may be slow or absent. Thread-safe. The
/// destructor waits for the read in progress, a second at most if the agent is silent.
class UseWatch {
 public:
  /// \param uuids  UUIDs of the GPUs with their indices, to find the GPUs of leases
  /// \param processes  as `gpu_users` takes them; called by the thread
  UseWatch(std::map<std::string, int> uuids,
           std::function<std::map<int, std::vector<std::int64_t>>()> processes, Seconds every)
      : uuids_(std::move(uuids)),
        processes_(std::move(processes)),
        every_(every),
        thread_([this] { watch(); }) {}
  ~UseWatch() {
    {
      const MutexLock lock(mutex_);
      ends_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  /// Returns the users found by the newest read.
  std::vector<GpuUser> users() const {
    const MutexLock lock(mutex_);
    return users_;
  }

 private:
  void watch() {
    MutexLock lock(mutex_);
    while (!ends_) {
      lock.unlock();
      std::vector<GpuUser> now = gpu_users(processes_(), leases());
      lock.lock();
      users_ = std::move(now);
      if (!ends_) {
        changed_.wait_for(mutex_, std::chrono::duration<double>(every_.value),
                          [this]() HARPE_REQUIRES(mutex_) { return ends_; });
      }
    }
  }

  /// Returns the leases on the GPUs; empty if there is no agent.
  std::vector<node::Lease> leases() const {
    std::vector<node::Lease> found;
    Result<node::AgentClient> agent = node::AgentClient::connect(node::agent_socket(""), kPatience);
    if (!agent.ok()) return found;
    const Result<std::vector<GpuIdentity>> gpus = agent->gpus();
    if (!gpus.ok()) return found;
    for (const GpuIdentity& gpu : *gpus) {
      const auto ours = uuids_.find(gpu.uuid);
      if (ours == uuids_.end()) continue;
      const Result<std::vector<node::Lease>> holders = agent->holders(gpu.index);
      if (!holders.ok()) continue;
      for (node::Lease lease : *holders) {
        lease.gpus = {ours->second};
        found.push_back(std::move(lease));
      }
    }
    return found;
  }

  const std::map<std::string, int> uuids_;
  const std::function<std::map<int, std::vector<std::int64_t>>()> processes_;
  const Seconds every_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<GpuUser> users_ HARPE_GUARDED_BY(mutex_);
  bool ends_ HARPE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all other members
};

class LiveMonitor {
 public:
  LiveMonitor(EnergyMonitor& monitor, const GpuViews& views, LiveTerminal& terminal,
              const LiveMonitorOptions& options, const Console& console, Clock& clock)
      : looker_(monitor, views, kShownWindow),
        terminal_(terminal),
        options_(options),
        console_(console),
        clock_(clock),
        uses_(uuids_of(monitor), [&views] { return views.processes(); }, kBetweenUses) {
    state_.node = node_name();
    state_.simulated = options.simulated;
    state_.interval = options.interval;
  }

  Status run() {
    HARPE_TRY(looker_.restart());
    const Instant start = clock_.now();
    const Seconds end = options_.duration.value > 0
                            ? options_.duration
                            : Seconds{std::numeric_limits<double>::infinity()};
    terminal_.draw("harpe monitor  first update in " +
                   fixed(std::min(options_.first, end).value, 1) + " s  (q ends)\n");
    for (int round = 0;; ++round) {
      const Seconds next = std::min(options_.first + options_.interval * round, end);
      if (wait_until(start + next)) return ok_status();
      HARPE_TRY(look());
      draw();
      if (options_.count > 0 && round + 1 >= options_.count) return ok_status();
      if (next >= end) return ok_status();
    }
  }

 private:
  Status look() {
    Look now = HARPE_TRY(looker_.now());
    const Instant at = clock_.now();
    history_.resize(now.window.devices.size());
    for (std::size_t i = 0; i < now.window.devices.size(); ++i) {
      if (now.window.devices[i].error) continue;
      if (const auto power = power_now(now, i)) history_[i].add(at, *power);
    }
    if (state_.paused) return ok_status();
    state_.look = std::move(now);
    state_.history = history_;
    state_.users = uses_.users();
    state_.now = at;
    state_.time_of_day = time_of_day();
    return ok_status();
  }

  void draw() {
    const TerminalSize size = terminal_size();
    const MonitorScreen screen =
        monitor_screen(state_, size.columns, size.lines, console_.colour_out);
    state_.scroll = std::clamp(state_.scroll, 0, screen.most_scroll);
    page_ = std::max(1, screen.shown);
    std::string text;
    for (const std::string& line : screen.lines) text += line + "\n";
    terminal_.draw(text);
  }

  /// Returns true if the user ended the program before `until`.
  bool wait_until(Instant until) {
    for (;;) {
      switch (terminal_.wait(until - clock_.now())) {
        case LiveTerminal::Event::kTime:
          return false;
        case LiveTerminal::Event::kEnd:
          return true;
        case LiveTerminal::Event::kKey:
          if (terminal_.key().character == 'q') return true;
          press(terminal_.key());
          break;
        case LiveTerminal::Event::kResized:
          break;
      }
      if (!history_.empty()) draw();
    }
  }

  void press(KeyPress press) {
    int& scroll = state_.scroll;
    if (press.key == Key::kUp) scroll -= 1;
    if (press.key == Key::kDown) scroll += 1;
    if (press.key == Key::kPageUp) scroll -= page_;
    if (press.key == Key::kPageDown) scroll += page_;
    if (press.key == Key::kHome) scroll = 0;
    if (press.key == Key::kEnd) scroll = std::numeric_limits<int>::max() / 2;
    if (press.key == Key::kEscape) state_.help = false;
    if (press.key == Key::kCharacter) type(press.character);
  }

  void type(char character) {
    if (character == 'p') state_.paused = !state_.paused;
    if (character == 's') state_.order = next_of(state_.order);
    if (character == 'h' || character == '?') state_.help = !state_.help;
    if (character == 'e') (void)looker_.restart();
    if (character == 'j') state_.scroll += 1;
    if (character == 'k') state_.scroll -= 1;
  }

  Looker looker_;
  LiveTerminal& terminal_;
  const LiveMonitorOptions& options_;
  const Console& console_;
  Clock& clock_;
  MonitorState state_;
  std::vector<PowerHistory> history_;  ///< also recorded while the screen is paused
  int page_ = 1;
  UseWatch uses_;
};

/// Shows the measurements of `monitor` from now on, in a separate window, until the user, a signal
/// or the options end it.
Status show_live_monitor(EnergyMonitor& monitor, const GpuViews& views, LiveTerminal& terminal,
                         const LiveMonitorOptions& options, const Console& console, Clock& clock) {
  return LiveMonitor(monitor, views, terminal, options, console, clock).run();
}

struct MonitorArguments {
  DeviceArguments devices;
  Seconds interval{1};
  int count = 0;  ///< 0: until interrupted
  Seconds duration{0};
  bool csv = false;
};

constexpr const char* kWindow = "monitor";
// Counters step every 100 ms: an earlier first look would show nothing.
constexpr Seconds kFirstLook{0.2};
constexpr Seconds kLongestSettling{1};  // for sensors at the end
constexpr Seconds kLongestStop{2};      // for a driver call at the end

/// Printer of looks as text, JSON or CSV lines.
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
  // Often enough to observe the steps of counters, but not more often, because a GPU that is read
  // continuously does not sleep.
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

/// Prints a line for each look, until a signal or the arguments end it. Returns the window of the
/// last look; nullopt after a signal.
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
    return Error::invalid("--csv and --json exclude each other: give one of them");
  }
  ChosenDevices chosen = HARPE_TRY(open_chosen_devices(arguments.devices));
  const std::vector<Gpu*> gpus = chosen.chosen_gpus();
  const std::vector<Cpu*> cpus = chosen.all_cpus();
  if (gpus.empty() && cpus.empty()) return nothing_to_watch(chosen.devices);

  const bool live = console.out_is_terminal && !console.json && !arguments.csv;
  const bool simulated = any_simulated(chosen);
  // Created before the sampling threads, which must not receive signals.
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
    // A driver's call cannot be stopped: its thread and data are left to the kernel.
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
      "On a terminal, shows a screen that fits it, with the programs on each GPU; h shows the "
      "keys, q quits. Elsewhere, prints one line per update. --csv and --json are for programs: "
      "one row per device, one JSON object per line. The first update follows after one interval. "
      "Ctrl-C ends with a summary.",
      "harpe monitor\n"
      "harpe monitor --gpus 0 --interval 250ms\n"
      "harpe monitor --csv --duration 60s > power.csv\n"
      "harpe monitor --json --count 1",
      [arguments](Console& console) { return run_monitor(*arguments, console); });
  add_device_options(app, arguments->devices);
  add_parsed(app, "--interval", "SECONDS", "Time between two updates (default 1s)",
             arguments->interval, parse_interval);
  add_parsed(app, "--count", "N", "End after N updates", arguments->count,
             count_within(1, 1'000'000'000));
  add_parsed(app, "--duration", "SECONDS", "End after this time", arguments->duration,
             parse_time_above_0);
  app.add_flag("--csv", arguments->csv, "Print CSV, one row per device and update");
}

}  // namespace harpe::command
