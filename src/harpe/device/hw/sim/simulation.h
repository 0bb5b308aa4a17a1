#pragma once
/// \file
/// Simulated GPUs: a physical model of each (clocks, voltage, power, heat, throttling, sensors and
/// their faults) whose state lies in memory of one process, or in a file that all processes of a
/// machine map, so that they see the same GPUs. State moves on when it is read.
///
///   harpe::ManualClock clock;  // simulated time: nothing waits
///   auto simulation = harpe::Simulation::make("[[gpu]]\nmodel = \"a40\"\n", "here", clock);
///   auto gpu = (*simulation)->gpu(0);
///   (void)(*simulation)->run(0, (*simulation)->model_work(0, 0.02_s, 0.1));
///
/// What is simulated and with which constants: docs/simulated-gpus.md.

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/device/hw/device.h"

namespace harpe {

/// Work that a process puts on a simulated GPU, defined by what it costs at each clock.
struct SimulatedWork {
  struct Point {
    Megahertz clock;
    Seconds time;  ///< the whole work at this clock
    Watts power;   ///< while it runs
  };
  std::vector<Point> points;  ///< rising clocks, 1 to 192 of them; between them, linear
  /// How gradually a power limit bites, because kernels within the work differ in power: between
  /// (1 - softness) and (1 + softness) of the limit, power bends over to it. 0: not before the
  /// limit is reached, and never above it.
  double limit_softness = 0;
};

/// The truth of one GPU, which its sensors only approximate. For tests and demonstrations.
struct SimulatedTruth {
  Instant time;
  Joules energy;           ///< since the simulation began, of what is metered
  Watts power;             ///< now
  Megahertz clock;         ///< in force now
  double temperature = 0;  ///< degrees Celsius
};

/// The GPUs of one simulation file. Thread-safe; processes that share the state are safe too, even
/// if one dies at any point.
class Simulation {
 public:
  /// Reads the configuration (TOML) and makes the GPUs in memory of this process alone, moved on by
  /// `clock`.
  static Result<std::shared_ptr<Simulation>> make(std::string_view toml, const std::string& file,
                                                  Clock& clock);
  /// The GPUs that all processes with this configuration file share, in the state file it names;
  /// made when it is not there yet. Time is that of `system_clock()`.
  static Result<std::shared_ptr<Simulation>> open(const std::filesystem::path& config);

  virtual ~Simulation() = default;

  virtual int gpus() const = 0;
  virtual Instant began() const = 0;  ///< when the time of faults begins
  /// The GPU as its driver shows it, with all quirks and faults.
  virtual std::unique_ptr<Gpu> gpu(int index) = 0;
  virtual std::vector<std::unique_ptr<Cpu>> cpus() = 0;

  /// Runs work to its end, as one stream of a GPU does: sleeps on the clock until it is done at
  /// the clocks in force meanwhile. Returns when it began and ended. Works that run on one GPU at
  /// the same time (8 at most) share it evenly.
  struct Span {
    Instant begin, end;
  };
  virtual Result<Span> run(int gpu, const SimulatedWork& work) = 0;
  /// Constant load until changed: `activity` (0 idle, 1 fully busy) times the dynamic power at the
  /// clock in force.
  virtual Status set_load(int gpu, double activity) = 0;

  virtual SimulatedTruth truth(int gpu) = 0;

  /// Work of the GPU's own model (docs/gpu-models.md) that takes `at_highest` at the highest clock
  /// without a power limit, `memory_bound` of it at any clock.
  virtual SimulatedWork model_work(int gpu, Seconds at_highest, double memory_bound) const = 0;
  /// Median time from the call that locks graphics clocks to the clock in force, by the highest
  /// clock of the lock before and of the new one. The truth for measurements of it.
  virtual Seconds switch_latency(int gpu, Megahertz from, Megahertz to) const = 0;
};

}  // namespace harpe
