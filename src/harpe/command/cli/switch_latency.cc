#include "harpe/device/measure/switch_latency.h"

#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <utility>

#include "harpe/base/file.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/cli.h"
#include "harpe/command/cli/device_options.h"
#include "harpe/command/cli/measure_output.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/kept_result.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/device/hw/sim/simulation.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/plan/profile/latency_table.h"

namespace harpe::command {
namespace {

constexpr int kDefaultClocks = 4;
constexpr int kSignalledStatus = 128;
constexpr double kSimulatedLoad = 0.5;  // busy, but below any power limit at the highest clock

struct SwitchArguments {
  DeviceArguments devices;
  std::vector<Megahertz> clocks;
  int repeats = 20;
  Seconds timeout{1};
  std::string csv;
  std::string table;
};

/// Load on the GPUs while they are measured: the user's command, or a simulated load.
class Load {
 public:
  ~Load() {
    if (simulation_) {
      for (const int gpu : loaded_) (void)simulation_->set_load(gpu, 0);
    }
    if (child_ > 0) {
      ::kill(child_, SIGTERM);
      while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }

  Status simulate(const std::filesystem::path& file, const std::vector<int>& gpus) {
    simulation_ = HARPE_TRY(Simulation::open(file));
    for (const int gpu : gpus) {
      HARPE_TRY(simulation_->set_load(gpu, kSimulatedLoad));
      loaded_.push_back(gpu);
    }
    return ok_status();
  }

  /// Starts the command. Its output is sent to standard error: standard output is for the result.
  Status start(const std::vector<std::string>& command) {
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&files, 2, 1);
    sigset_t none;
    ::sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    const int error = ::posix_spawnp(&child_, words[0], &files, &attributes, words.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (error == 0) return ok_status();
    child_ = 0;
    return Error::of(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                     in_quotes(command[0]) +
                         " cannot be executed: " + std::strerror(error));  // NOLINT(*-mt-unsafe)
  }

  /// Returns true while the command runs, or if there is no command.
  bool runs() {
    if (child_ <= 0) return !ended_;
    if (::waitpid(child_, nullptr, WNOHANG) == 0) return true;
    child_ = 0;
    ended_ = true;
    return false;
  }
  bool ended() const { return ended_; }

 private:
  std::shared_ptr<Simulation> simulation_;
  std::vector<int> loaded_;
  pid_t child_ = 0;
  bool ended_ = false;
};

struct Measured {
  GpuIdentity gpu;
  SwitchLatencyResult result;
  int wanted = 0;  ///< repetitions of all pairs
};

/// Returns the error of a GPU that failed and the number of switches measured before.
std::string failure_text(const Measured& measured) {
  return "GPU " + std::to_string(measured.gpu.index) + ": after " +
         std::to_string(measured.result.repetitions()) + " of " + std::to_string(measured.wanted) +
         " switches: " + measured.result.failure->text() + "; the measurements until then are kept";
}

std::string milliseconds(Seconds time) {
  return fixed(time.value * 1000, 1);
}

/// Returns the median with its uncertainty, and the longest: "15.2±0.3 <=15.9".
std::string cell_text(const ClockSwitch& pair) {
  if (pair.repetitions() == 0) return "not measured";
  const auto transition = pair.transition();
  std::string late = std::to_string(pair.late) + " late";
  if (!transition) return late;
  // The middle between two readings is off by at most half of the time between them.
  return milliseconds(transition->median) + "±" + milliseconds(pair.resolution / 2) +
         " <=" + milliseconds(transition->longest) + (pair.late > 0 ? ", " + late : "");
}

/// Returns a table of switches. Rows: from; columns: to.
std::string matrix_text(const Measured& measured, Seconds timeout, bool coloured) {
  std::vector<Megahertz> clocks;
  for (const ClockSwitch& pair : measured.result.switches) {
    if (std::ranges::find(clocks, pair.from) == clocks.end()) clocks.push_back(pair.from);
  }
  Table table = Table::of({"MHz to"});
  for (const Megahertz to : clocks) table.columns.push_back({.heading = std::to_string(to.value)});
  std::vector<double> calls;
  int late = 0;
  for (const Megahertz from : clocks) {
    std::vector<std::string> row = {"from " + std::to_string(from.value)};
    for (const Megahertz to : clocks) {
      const auto pair = std::ranges::find_if(
          measured.result.switches,
          [&](const ClockSwitch& other) { return other.from == from && other.to == to; });
      const bool there = pair != measured.result.switches.end();
      row.push_back(there ? cell_text(*pair) : "-");
      if (!there) continue;
      late += pair->late;
      for (const Seconds call : pair->calls) calls.push_back(call.value);
    }
    table.add(std::move(row));
  }
  std::string text = "GPU " + std::to_string(measured.gpu.index) + " " + measured.gpu.name +
                     ": transition of the clock, ms\n" + table.text(coloured);
  if (std::ranges::any_of(measured.result.switches,
                          [](const ClockSwitch& pair) { return !pair.transitions.empty(); })) {
    text +=
        "15.2±0.3 <=15.9: median, error of each value, longest. The 95th\n"
        "percentile and the call are in --csv and --json.\n";
  }
  std::ranges::sort(calls);
  if (!calls.empty()) {
    text += "The call itself takes " + milliseconds({calls[calls.size() / 2]}) + " ms (median), " +
            milliseconds({calls.back()}) + " ms at most.\n";
  }
  if (late > 0) {
    text += counted(static_cast<std::size_t>(late), "switch") + " did not complete within " +
            shortest(timeout.value) + " s (--timeout).\n";
  }
  return text;
}

std::string csv_text(const std::vector<Measured>& all) {
  std::string text =
      "gpu,uuid,from_mhz,to_mhz,repetitions,late,call_median_s,call_p95_s,"
      "call_max_s,transition_median_s,transition_p95_s,transition_max_s,"
      "resolution_s\n";
  const auto cells = [](const std::optional<LatencyDistribution>& times) {
    if (!times) return std::string(",,,");
    return "," + fixed(times->median.value, 6) + "," + fixed(times->p95.value, 6) + "," +
           fixed(times->longest.value, 6);
  };
  for (const Measured& measured : all) {
    for (const ClockSwitch& pair : measured.result.switches) {
      text += std::to_string(measured.gpu.index) + "," + measured.gpu.uuid + "," +
              std::to_string(pair.from.value) + "," + std::to_string(pair.to.value) + "," +
              std::to_string(pair.repetitions()) + "," + std::to_string(pair.late) +
              cells(pair.call()) + cells(pair.transition()) + "," +
              fixed(pair.resolution.value, 6) + "\n";
    }
  }
  return text;
}

/// Returns the longest and the shortest transition to each clock of any GPU. A transition that did
/// not end within the timeout counts as the timeout.
std::vector<LatencyByClock::Entry> latencies_by_clock(const std::vector<Measured>& all,
                                                      Seconds timeout) {
  struct Range {
    Seconds least, most;
  };
  std::map<Megahertz, Range> ranges;
  for (const Measured& measured : all) {
    for (const ClockSwitch& pair : measured.result.switches) {
      if (pair.repetitions() == 0) continue;
      Range& known = ranges.try_emplace(pair.to, Range{timeout, {}}).first->second;
      if (pair.late > 0) known.most = std::max(known.most, timeout);
      for (const Seconds transition : pair.transitions) {
        known.most = std::max(known.most, transition);
        known.least = std::min(known.least, transition);
      }
    }
  }
  std::vector<LatencyByClock::Entry> entries;
  for (const auto& [clock, range] : ranges) {
    // Rounded outwards to whole microseconds.
    const double most = std::ceil(range.most.value * 1e6),
                 least = std::floor(range.least.value * 1e6);
    entries.push_back({clock, Seconds{most / 1e6}});
    if (least > 0) entries.back().least = Seconds{std::min(least, most) / 1e6};
  }
  return entries;
}

Json distribution_json(const std::optional<LatencyDistribution>& times) {
  if (!times) return {};
  return {{"median_s", times->median.value},
          {"p95_s", times->p95.value},
          {"max_s", times->longest.value}};
}

Json result_json(const std::vector<Measured>& all, bool simulated, bool complete) {
  Json gpus = Json::array();
  for (const Measured& measured : all) {
    Json switches = Json::array();
    for (const ClockSwitch& pair : measured.result.switches) {
      switches.push_back({{"from_mhz", pair.from.value},
                          {"to_mhz", pair.to.value},
                          {"repetitions", pair.repetitions()},
                          {"late", pair.late},
                          {"call", distribution_json(pair.call())},
                          {"transition", distribution_json(pair.transition())},
                          {"resolution_s", pair.resolution.value}});
    }
    gpus.push_back({{"gpu", measured.gpu.index},
                    {"uuid", measured.gpu.uuid},
                    {"name", measured.gpu.name},
                    {"switches", std::move(switches)},
                    {"repetitions", measured.result.repetitions()},
                    {"repetitions_wanted", measured.wanted},
                    {"lock_before_known", measured.result.knew_before}});
    if (const std::optional<Error>& failure = measured.result.failure) {
      gpus.back()["error"] = {{"code", name_of(failure->code)}, {"message", failure->text()}};
    }
  }
  return {{"simulated", simulated}, {"complete", complete}, {"gpus", std::move(gpus)}};
}

Result<std::vector<Megahertz>> clocks_for(Gpu& gpu, const SwitchArguments& arguments) {
  if (!arguments.clocks.empty()) return arguments.clocks;
  auto supported = HARPE_TRY(gpu.supported_clocks(ClockDomain::kGraphics));
  // Clocks below half of the highest are useless for training.
  std::erase_if(supported, [highest = supported.back().value](Megahertz clock) {
    return 2 * clock.value < highest;
  });
  return spread_clocks(supported, kDefaultClocks);
}

/// Starts the load on the GPUs: the user's command or, on simulated GPUs, a simulated load.
Status start_load(const SwitchArguments& arguments, const std::vector<std::string>& command,
                  const ChosenDevices& chosen, Console& console, Load& load) {
  if (!command.empty()) return load.start(command);
  if (any_simulated(chosen)) {
    DeviceOptions options = DeviceOptions::of_environment();
    if (!arguments.devices.simulation.empty()) options.simulation = arguments.devices.simulation;
    return load.simulate(options.simulation, chosen.gpus);
  }
  console.err << "note: an idle GPU does not show the clock of a GPU under load; give a load: "
                 "harpe switch-latency -- COMMAND\n";
  return ok_status();
}

/// Measurements of all GPUs that could be measured.
struct AllMeasured {
  std::vector<Measured> gpus;
  bool cancelled = false;
  std::optional<Error> failure;  ///< of the first GPU that failed; later GPUs are still measured
};

AllMeasured measure_all(const SwitchArguments& arguments, const ChosenDevices& chosen,
                        const std::function<bool()>& cancelled, Console& console) {
  AllMeasured all;
  const auto failed = [&](int index, Error error, bool is_said = false) {
    if (!is_said) console.err << "error: GPU " << index << ": " << error.text() << '\n';
    if (!all.failure) all.failure = std::move(error);
  };
  for (const int index : chosen.gpus) {
    Gpu& gpu = *chosen.devices.gpus[static_cast<std::size_t>(index)];
    const auto clocks = clocks_for(gpu, arguments);
    if (!clocks.ok()) {
      failed(index, clocks.error());
      continue;
    }
    ProgressBar bar(console, "GPU " + std::to_string(index));
    SwitchLatencyOptions options{.clocks = *clocks,
                                 .repeats = arguments.repeats,
                                 .timeout = arguments.timeout,
                                 .cancelled = cancelled,
                                 .progress = [&](double share) { bar.update(share); }};
    auto result = measure_switch_latency(gpu, options, system_clock());
    if (!result.ok()) {
      failed(index, std::move(result).error());
      continue;
    }
    const auto pairs = static_cast<int>(result->switches.size());
    all.gpus.push_back(
        {.gpu = gpu.identity(), .result = *std::move(result), .wanted = pairs * arguments.repeats});
    const Measured& measured = all.gpus.back();
    if (measured.result.failure) {
      console.err << "error: " << failure_text(measured) << '\n';
      failed(index, *measured.result.failure, true);
    }
    all.cancelled = measured.result.cancelled;
    if (all.cancelled) break;
  }
  return all;
}

std::string switches_text(const SwitchArguments& arguments, const AllMeasured& all, bool coloured) {
  std::string text;
  for (const Measured& measured : all.gpus) {
    text += matrix_text(measured, arguments.timeout, coloured);
    if (!measured.result.knew_before && measured.result.restored) {
      text += "The driver does not report which lock was set before: no lock is set now.\n";
    }
  }
  if (all.cancelled || all.failure) text += "Not all repetitions were made.\n";
  return text;
}

Result<Outcome> run_switch_latency(const SwitchArguments& arguments,
                                   const std::vector<std::string>& command, Console& console) {
  for (const std::string& file : {arguments.csv, arguments.table}) {
    if (!file.empty()) HARPE_TRY(check_writable(file));
  }
  InterruptScope interrupts;
  ChosenDevices chosen = HARPE_TRY(open_chosen_devices(arguments.devices));
  if (chosen.gpus.empty()) {
    return Error::of(ErrorCode::kUnavailable, "there is no GPU to measure\n" +
                                                  no_gpu_text(chosen.devices) +
                                                  simulation_hint("switch-latency"));
  }
  const bool simulated = any_simulated(chosen);
  Load load;
  HARPE_TRY(start_load(arguments, command, chosen, console, load));
  const AllMeasured all = measure_all(
      arguments, chosen, [&] { return interrupts.interrupted() || !load.runs(); }, console);
  // If nothing was measured, there is nothing to keep, and the failures were reported.
  if (all.failure && all.gpus.empty()) return *all.failure;
  const bool complete = !all.cancelled && !all.failure;
  Outcome outcome{.text = switches_text(arguments, all, console.colour_out),
                  .json = json_text(result_json(all.gpus, simulated, complete))};
  if (simulated) outcome.text += std::string(kSimulatedRemark) + "\n";
  if (!arguments.csv.empty()) keep_result(arguments.csv, csv_text(all.gpus), console, outcome);
  auto latencies = latencies_by_clock(all.gpus, arguments.timeout);
  if (!arguments.table.empty() && !latencies.empty()) {
    const std::string table = plan::latency_table_csv(LatencyByClock(std::move(latencies)));
    keep_result(arguments.table, table, console, outcome);
  }
  if (all.failure) outcome.status = exit_status(all.failure->code);
  if (all.cancelled && load.ended()) {
    console.err << "error: the load ended before the measurement\n";
    outcome.status = 1;
  }
  if (interrupts.signal() != 0) outcome.status = kSignalledStatus + interrupts.signal();
  return outcome;
}

Result<std::vector<Megahertz>> parse_clocks(std::string_view text) {
  std::vector<Megahertz> clocks;
  while (true) {
    const std::size_t comma = text.find(',');
    const int clock = HARPE_TRY(parse_count(text.substr(0, comma), 1, 100'000));
    if (std::ranges::find(clocks, Megahertz{clock}) == clocks.end()) clocks.push_back({clock});
    if (comma == std::string_view::npos) return clocks;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

void add_switch_latency_command(Commands& commands) {
  const auto arguments = std::make_shared<SwitchArguments>();
  CLI::App& app = commands.add(
      commands.root(), "switch-latency",
      "measure how long GPUs take to change clocks\n"
      "Switches between the two clocks of every pair, in random order, and measures the time of "
      "the call and of the chip's transition. Needs the right to lock clocks. Restores earlier "
      "locks at the end, also after Ctrl-C, which ends the measurement early and keeps its "
      "results (exit status 128 + signal; 1 if the load ended before the measurement). If a GPU "
      "is lost, its results are kept and the other GPUs are measured. A GPU shows its clock only "
      "under load: give a command that keeps it busy; Harpe ends the command afterwards. "
      "Simulated GPUs have their own load.",
      "harpe switch-latency --gpus 0 -- python burn.py\n"
      "harpe switch-latency --clocks 1410,1080,900 --repeats 50 --table latency.csv\n"
      "harpe switch-latency --simulate gpus.toml --repeats 5",
      [arguments, &commands](Console& console) {
        return run_switch_latency(*arguments, commands.following_command(), console);
      });
  commands.let_command_follow(app, "Load that keeps the GPUs busy");
  add_device_options(app, arguments->devices);
  add_parsed(app, "--clocks", "MHZ,MHZ,...",
             "Clocks to switch between (default: 4 from half of the highest to the highest)",
             arguments->clocks, parse_clocks);
  add_parsed(app, "--repeats", "N", "Switches per pair of clocks (default 20)", arguments->repeats,
             count_within(1, 100'000));
  add_parsed(app, "--timeout", "SECONDS",
             "Time after which a switch counts as late and is not timed (default 1s)",
             arguments->timeout, [](std::string_view text) -> Result<Seconds> {
               Result<Seconds> time = parse_seconds(text);
               if (time.ok() && time->value <= 0) return Error::invalid("expected more than 0 s");
               return time;
             });
  add_text(app, "--csv", "FILE", "Write the distributions of all pairs to FILE", arguments->csv);
  add_text(
      app, "--table", "FILE",
      "Write a table of the longest and the shortest transition of any GPU to each clock (late "
      "transitions as --timeout), for harpe plan, which finds PROFILE.latency.csv beside "
      "PROFILE.csv and reads other files by --switch-latency FILE, and for the switch_latency_s "
      "of a job",
      arguments->table);
}

}  // namespace harpe::command
