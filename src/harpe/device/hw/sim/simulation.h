#pragma once
/// \file
/// Simulated GPUs: a physical model of each GPU (clocks, voltage, power, heat, throttling, sensors
/// and their faults). The state is either private memory of one process or a file that all
/// processes of a machine map, so that they share the GPUs. The state advances when it is read.
///
///   harpe::ManualClock clock;  // simulated time: nothing waits
///   auto simulation = harpe::Simulation::make("[[gpu]]\nmodel = \"a40\"\n", "here", clock);
///   auto gpu = (*simulation)->gpu(0);
///   (void)(*simulation)->run(0, (*simulation)->model_work(0, 0.02_s, 0.1));
///
/// docs/simulated-gpus.md describes the model and its constants.

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

/// Work for a simulated GPU, defined by its time and power at each clock.
struct SimulatedWork {
  struct Point {
    Megahertz clock;
    Seconds time;  ///< time of the whole work at this clock
    Watts power;   ///< power while the work runs
  };
  std::vector<Point> points;  ///< 1 to 192 points in ascending order of clock; linear in between
  /// Width of the range in which a power limit takes effect, because kernels within the work differ
  /// in power: between (1 - softness) and (1 + softness) of the limit, power bends over to it. With
  /// 0, the limit has no effect below its value, and power never exceeds it.
  double limit_softness = 0;
};

/// The true state of one GPU, which its sensors only approximate. For tests and demonstrations.
struct SimulatedTruth {
  Instant time;
  Joules energy;           ///< energy of the metered part since the simulation began
  Watts power;             ///< present power
  Megahertz clock;         ///< clock now in force
  double temperature = 0;  ///< degrees Celsius
};

/// The GPUs of one simulation file. Thread-safe; processes that share the state are safe too, even
/// if one dies at any point.
class Simulation {
 public:
  /// Parses the configuration (TOML) and creates GPUs with private state, whose time is `clock`.
  static Result<std::shared_ptr<Simulation>> make(std::string_view toml, const std::string& file,
                                                  Clock& clock);
  /// Opens the GPUs that all processes with this configuration file share. Creates their state
  /// file, which the configuration may name, if it does not exist. Their time is `system_clock()`.
  static Result<std::shared_ptr<Simulation>> open(const std::filesystem::path& config);

  virtual ~Simulation() = default;

  virtual int gpus() const = 0;
  virtual Instant began() const = 0;  ///< start of the simulation, from which times of faults count
  /// Returns the GPU as its driver shows it, with all quirks and faults.
  virtual std::unique_ptr<Gpu> gpu(int index) = 0;
  virtual std::vector<std::unique_ptr<Cpu>> cpus() = 0;

  /// Runs work to its end, as one stream of a GPU does: sleeps on the simulation's clock until the
  /// work is done at the GPU clocks in force, and returns its begin and end. Works that run on one
  /// GPU at the same time (8 at most) share it evenly.
  struct Span {
    Instant begin, end;
  };
  virtual Result<Span> run(int gpu, const SimulatedWork& work) = 0;
  /// Sets a constant load until the next call: `activity` (0 idle, 1 fully busy) times the dynamic
  /// power at the clock in force.
  virtual Status set_load(int gpu, double activity) = 0;

  virtual SimulatedTruth truth(int gpu) = 0;

  /// Returns work by the GPU's own model (docs/gpu-models.md). It takes `at_highest` at the highest
  /// clock without a power limit, of which a share of `memory_bound` is independent of the clock.
  virtual SimulatedWork model_work(int gpu, Seconds at_highest, double memory_bound) const = 0;
  /// Returns the true median time from the call that locks graphics clocks until the new clock is
  /// in force, for a change of the lock's highest clock from `from` to `to`.
  virtual Seconds switch_latency(int gpu, Megahertz from, Megahertz to) const = 0;
};

}  // namespace harpe
