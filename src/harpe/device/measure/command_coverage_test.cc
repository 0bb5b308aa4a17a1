// Commands on simulated GPUs, measured as in `harpe run`: how often the error bars contain the
// truth, and how wide they are compared with the errors. Prints a table.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "harpe/base/statistics.h"
#include "harpe/device/hw/sim/simulation.h"
#include "harpe/device/measure/energy_monitor.h"

namespace harpe::device {
namespace {

constexpr double kLead = 0.5;  // s of readings before the command
constexpr const char* kModels[] = {"a100-sxm", "a100-pcie", "a40", "h100-sxm", "gh200"};

/// Power changes at the command's start, its end, both, or on and off for the whole time between.
enum class Load { kStart, kEnd, kBoth, kSquare3, kSquare11, kSquare200 };
constexpr const char* kLoadNames[] = {"start", "end", "both", "3 Hz", "11 Hz", "200 Hz"};

enum class Near { kAtEdge, kBeside, kStarved };
constexpr const char* kNearNames[] = {"at", "beside", "starved"};

constexpr Load kSensorLoads[] = {Load::kStart, Load::kEnd, Load::kBoth, Load::kSquare3,
                                 Load::kSquare200};

struct Change {
  double time;
  double activity;
};

std::vector<Change> changes(Load load, double begin, double end, Near near, std::mt19937_64& random,
                            bool varies) {
  std::uniform_real_distribution<double> unit(0, 1);
  const double busy = 0.4 + 0.6 * unit(random);
  const auto beside = [&](double edge) {
    return near == Near::kBeside ? edge + 0.12 * (unit(random) - 0.5) : edge;
  };
  const double from = load == Load::kEnd ? 0.1 : beside(begin);
  const double to = load == Load::kStart ? end + 5 : std::max(from + 0.005, beside(end));
  const double nominal = load == Load::kSquare3     ? 3
                         : load == Load::kSquare11  ? 11
                         : load == Load::kSquare200 ? 200
                                                    : 0;
  // A load in step with a sensor would show it the same part of its period each time.
  const double hertz = varies ? nominal * (0.8 + 0.4 * unit(random)) : nominal;
  std::vector<Change> all{{from, busy}};
  if (hertz > 0) {
    bool on = true;
    for (double time = from + 0.5 / hertz; time < to; time += 0.5 / hertz) {
      on = !on;
      all.push_back({time, on ? busy : 0});
    }
  }
  all.push_back({to, 0});
  return all;
}

struct Response {
  double off, bar, truth;
};

/// Measures one command of that length. \param sensors  lines of the simulation's configuration
Response measure(Load load, double length, Near near, const char* model, std::mt19937_64& random,
                 const std::string& sensors = "") {
  std::uniform_real_distribution<double> unit(0, 1);
  ManualClock clock(Instant{1'000'000'000});
  const Instant zero = clock.now();
  const std::string toml = "seed = " + std::to_string(random() >> 2) + "\n[[gpu]]\nmodel = \"" +
                           model + "\"\ngain = 1\n" + sensors;
  auto simulation = Simulation::make(toml, "coverage", clock);
  EXPECT_TRUE(simulation.ok()) << toml;
  const auto gpu = (*simulation)->gpu(0);
  const double begin = 3 + unit(random), end = begin + length;
  std::vector<Change> todo = changes(load, begin, end, near, random, !sensors.empty());
  std::size_t done = 0;
  const auto go = [&](double time) {
    for (; done < todo.size() && todo[done].time <= time; ++done) {
      clock.sleep_until(zero + Seconds{todo[done].time});
      (void)(*simulation)->set_load(0, todo[done].activity);
    }
    clock.sleep_until(zero + Seconds{time});
  };
  Gpu* one[] = {gpu.get()};
  go(begin - kLead);
  const auto monitor =
      EnergyMonitor::start(one, {}, {.sampling_threads = false, .seed = random()}, clock);
  const auto next = [&](double time) {
    const double interval = (0.75 + 0.5 * unit(random)) / 50;
    const bool starves = near == Near::kStarved && unit(random) < 0.1;
    return time + interval + (starves ? 0.4 * unit(random) : 0);
  };
  (void)(*monitor)->begin("early");
  double time = begin - kLead;
  for (time = next(time); time < begin; time = next(time)) {
    go(time);
    (*monitor)->poll();
  }
  go(begin);
  const double truth_begin = (*simulation)->truth(0).energy.value;
  (void)(*monitor)->begin("command", false, zero + Seconds{begin});
  (void)(*monitor)->cancel("early");
  for (time = next(begin); time < end; time = next(time)) {
    go(time);
    (*monitor)->poll();
  }
  go(end);
  const double truth = (*simulation)->truth(0).energy.value - truth_begin;
  (*monitor)->poll();
  for (time = next(end); !(*monitor)->settled(zero + Seconds{end}); time = next(time)) {
    go(time);
    (*monitor)->poll();
  }
  const auto used = (*monitor)->end("command", zero + Seconds{end});
  const EnergyEstimate& energy = used->devices.front().energy;
  return {energy.energy.value - truth, energy.error.value, truth};
}

/// With 93 % coverage, fewer than this of 40 are covered by chance in at most one cell of 1,000.
constexpr int kLeastCovered = 31;

/// Three times, plus two and a half standard deviations of the root mean square of 40 errors.
constexpr double kMostWidth = 3 * (1 + 2.5 * 0.112);

/// Cases that bars cannot cover: readings do not show where within a counter step an 11 Hz load
/// switches, or where a load began beside such a short command. See docs/measuring.md.
bool is_undetermined(Load load, Near near, double length) {
  if (load == Load::kSquare11) return length < 1;
  return length < 0.2 && near != Near::kAtEdge;
}

class Commands : public testing::TestWithParam<std::tuple<Load, Near, double>> {};

TEST_P(Commands, ErrorBarsHoldTheTruthAndAreNoWiderThanNeeded) {
  const auto [load, near, length] = GetParam();
  constexpr std::uint64_t kSeed = 20261123;
  constexpr int kRuns = 40;
  std::mt19937_64 random(kSeed);
  int covered = 0;
  double squares = 0, bars = 0, bias = 0, truth = 0;
  for (int i = 0; i < kRuns; ++i) {
    const Response response = measure(load, length, near, kModels[i % std::size(kModels)], random);
    covered += std::abs(response.off) <= response.bar ? 1 : 0;
    squares += response.off * response.off;
    bars += response.bar / kRuns;
    bias += response.off / kRuns;
    truth += response.truth / kRuns;
  }
  const double rms = std::sqrt(squares / kRuns);
  std::printf("| %-6s | %-7s | %5.2f | %5.1f %% | %7.2f %% | %5.2f | %+6.2f %% |\n",
              kLoadNames[static_cast<int>(load)], kNearNames[static_cast<int>(near)], length,
              100.0 * covered / kRuns, 100 * bars / truth, bars / rms, 100 * bias / truth);
  if (is_undetermined(load, near, length)) return;
  EXPECT_GE(covered, kLeastCovered);
  // Bars of short commands include explanations that no reading excludes. Bars of 3 Hz (3.7 times)
  // include that the next half wave might have been different.
  if (length < 0.5 || load == Load::kSquare3) return;
  EXPECT_LE(bars, kMostWidth * rms);
}

INSTANTIATE_TEST_SUITE_P(
    Loads, Commands,
    testing::Combine(testing::Values(Load::kStart, Load::kEnd, Load::kBoth, Load::kSquare3,
                                     Load::kSquare11, Load::kSquare200),
                     testing::Values(Near::kAtEdge, Near::kBeside, Near::kStarved),
                     testing::Values(0.05, 0.1, 0.2, 0.5, 2.0, 10.0)));

/// Periods of the counter's steps and of the power sensor, ms.
class Sensors : public testing::TestWithParam<std::tuple<int, int>> {};

std::string drawn_sensors(int counter, int power, std::mt19937_64& random) {
  std::uniform_real_distribution<double> unit(0, 1);
  constexpr double kLeastWindow = 0.1, kMostNoise = 0.02, kMostJitter = 0.03;
  const double window = power * (kLeastWindow + (1 - kLeastWindow) * unit(random));
  const double jitter = counter * kMostJitter * unit(random), noise = kMostNoise * unit(random);
  return "counter_step_ms = " + std::to_string(counter) +
         "\ncounter_jitter_ms = " + std::to_string(jitter) +
         "\nsensor_period_ms = " + std::to_string(power) +
         "\nsensor_window_ms = " + std::to_string(window) + "\nnoise = " + std::to_string(noise) +
         "\n";
}

TEST_P(Sensors, ErrorBarsHoldTheTruthWhateverTheirPeriods) {
  const auto [counter, power] = GetParam();
  constexpr std::uint64_t kSeed = 20261128;
  constexpr int kRuns = 200;
  constexpr double kNeeded = 0.93, kShortest = 0.5, kLongest = 4;
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> unit(0, 1);
  int covered = 0;
  double squares = 0;
  std::vector<double> widths;
  for (int i = 0; i < kRuns; ++i) {
    const std::string sensors = drawn_sensors(counter, power, random);
    const double length = kShortest * std::pow(kLongest / kShortest, unit(random));
    const Load load = kSensorLoads[static_cast<std::size_t>(i) % std::size(kSensorLoads)];
    const Near near = unit(random) < 0.5 ? Near::kAtEdge : Near::kBeside;
    const Response response =
        measure(load, length, near, kModels[random() % std::size(kModels)], random, sensors);
    covered += std::abs(response.off) <= response.bar ? 1 : 0;
    squares += square(response.off / response.truth) / kRuns;
    widths.push_back(response.bar / response.truth);
  }
  std::ranges::sort(widths);
  const double median = widths[kRuns / 2];
  std::printf("| %3d ms | %3d ms | %5.1f %% | %6.3f %% | %6.3f %% |\n", counter, power,
              100.0 * covered / kRuns, 100 * median, 100 * std::sqrt(squares));
  EXPECT_GE(covered, kNeeded * kRuns);
}

INSTANTIATE_TEST_SUITE_P(Periods, Sensors,
                         testing::Combine(testing::Values(10, 20, 50, 100, 250, 500),
                                          testing::Values(10, 20, 50, 100, 250, 500)));

}  // namespace
}  // namespace harpe::device
