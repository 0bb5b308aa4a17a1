#pragma once
/// \file
/// Power of an emulated cluster over time, in equal steps: of the job, of nodes, of GPUs.
///
///   PowerRecorder recorder(cluster, {.length = 120_s});
///   emulate(cluster, plans, terms, {.power = {&recorder}});
///   use(recorder.job(), recorder.options().step);
///
/// A GPU draws energy / time during an instruction and its blocking power in between. The value of
/// a step is its mean power, so that the sum of all steps is the energy of the iterations to
/// rounding. Not thread-safe.

#include <cstddef>
#include <span>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/lab/emulation/emulated_cluster.h"

namespace harpe::lab {

class PowerRecorder {
 public:
  struct Options {
    Seconds step{0.01};  ///< shows frequencies up to 50 Hz
    Seconds length{0};   ///< of the recording, from the start of the training
    int pipelines = 1;   ///< number of first pipelines whose nodes and GPUs are recorded
  };
  /// \param cluster  must outlive this
  PowerRecorder(const EmulatedCluster& cluster, const Options& options);

  const Options& options() const { return options_; }
  /// Returns false if the recording ends before that time.
  bool wants(Seconds begin) const { return begin < options_.length; }

  // Called by the emulation.
  /// Adds the blocking power of all GPUs. `add` adds the difference during computations.
  void add_waiting(Seconds begin, Seconds time);
  /// Adds the computations of pipelines in an iteration that begins at `begin`.
  void add(Seconds begin, const EmulatedCluster::TracedRun& traced);

  // Watts in each step.
  std::span<const double> job() const { return job_; }
  /// Returns the power of one GPU of a stage of a recorded pipeline, the mean of its GPUs.
  std::vector<double> gpu(std::size_t pipeline, std::size_t stage) const;
  /// Returns the number of GPUs of recorded pipelines; they are the first ones.
  std::size_t gpus() const;
  /// Returns the power of one of these GPUs, by pipeline, then stage, then tensor rank.
  std::vector<double> numbered_gpu(std::size_t number) const;
  /// Returns the number of nodes with GPUs of recorded pipelines; they are the first ones.
  std::size_t nodes() const;
  /// Returns the power of the GPUs of a node that belong to recorded pipelines.
  std::vector<double> node(std::size_t node) const;

 private:
  void add_power(std::vector<double>& watts, double begin, double end, double power) const;

  const EmulatedCluster& cluster_;
  Options options_;
  std::vector<double> job_;
  std::vector<std::vector<double>> gpus_;  ///< of each recorded pipeline and stage, factor 1
};

// Swings of power, in the figures that grid operators request: peak against mean, ramps over some
// seconds, and the spectrum from 0.1 to 20 Hz, in which turbines and controls of a grid can
// oscillate.

/// The steepest rise and fall between two moments a given time apart, W/s. Both are at least 0.
struct PowerRamp {
  Seconds over;
  double up = 0, down = 0;
};

/// A line of a spectrum: a swing of that frequency between mean - amplitude and mean + amplitude.
struct SpectralLine {
  double hertz = 0;
  Watts amplitude;
};

struct PowerSwings {
  Watts mean, peak, lowest;
  std::vector<PowerRamp> ramps = {};  ///< over 1, 5 and 10 s, as far as the recording is that long
  /// From 0.1 to 20 Hz, rising; empty if the recording is shorter than ten of the longest swings.
  std::vector<SpectralLine> spectrum = {};
  SpectralLine strongest = {};  ///< of the spectrum
};

/// Returns the swings of a recording. The spectrum is the mean over overlapping parts (Welch 1967),
/// with Hann's window. O(n log n).
/// \param watts  mean power of equal steps; not empty
PowerSwings swings_of(std::span<const double> watts, Seconds step);

}  // namespace harpe::lab
