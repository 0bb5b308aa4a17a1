#pragma once
/// \file
/// What each kind of instruction draws, told apart from what the energy counter says in between.
///
/// A counter steps every 100 ms or so, and the power sensors of data-centre GPUs see a quarter of
/// the time at best: neither tells what one instruction of 50 ms used. But when every instruction
/// ran is known, and between two steps of the counter
///
///   energy = sum over classes (power of the class x its time between the steps) + noise
///
/// A class is a kind and chunk at one clock, and waiting is one more. Steps and iterations are out
/// of step with each other, so that some iterations tell the classes apart: least squares, where
/// computations at one clock are expected to draw about alike, and waiting about what it drew under
/// the assignments before. The error bar comes from the residuals. Instants of steps are known to
/// some milliseconds, which is the noise.

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "harpe/device/measure/energy_estimator.h"
#include "harpe/training/client/iteration_log.h"
#include "harpe/training/wire/rank_events.h"

namespace harpe::training {

/// Not thread-safe. `add` is O(edges x instructions between + classes^2), `refine` O(classes^3).
class PowerSplit {
 public:
  /// Takes an iteration and the counter's edges from `kBefore` before it to its end, estimated as
  /// well as is possible now; an interval counts once. Iterations of other assignments start over,
  /// and the first of them is left out: its clocks were still changing.
  void add(const IterationRecord& record, std::span<const CounterEdge> edges);

  /// Puts what is known of this iteration's instructions in place of worse estimates: those without
  /// a number, with a larger error, or of instructions too short for what sensors see.
  void refine(const IterationRecord& record, IterationReport& report) const;

  static constexpr std::size_t kMostClasses = 24;  ///< more are not told apart
  static constexpr Seconds kBefore{1};             ///< an iteration: its intervals begin then

 private:
  using Class = std::tuple<int, int, int>;  ///< kind (-1: waiting), chunk, MHz
  struct Solution {
    std::vector<double> power;
    std::vector<double> covariance;  ///< square matrix
  };

  std::size_t index(const Class& of);
  void add_interval(const CounterEdge& from, const CounterEdge& to,
                    std::span<const TimedInstruction> instructions);
  std::optional<Solution> solve() const;
  /// Adds what is expected before anything is measured.
  void expect(std::vector<double>& matrix, std::vector<double>& right) const;

  std::optional<std::uint64_t> version_;
  std::optional<CounterEdge> used_;             ///< the end of the last interval that was added
  std::optional<Instant> known_since_;          ///< all instructions since then are in ...
  std::vector<TimedInstruction> instructions_;  ///< ... these
  std::optional<double> waiting_;               ///< watts, under the assignments before
  std::map<Class, std::size_t> classes_;
  bool too_many_ = false;
  // Sums over intervals, weighted by what is known of each.
  std::vector<double> times_times_;   ///< kMostClasses squared
  std::vector<double> times_energy_;  ///< kMostClasses
  double energy_energy_ = 0;
  double intervals_ = 0;
  double energy_ = 0, time_ = 0;  ///< not weighted
};

}  // namespace harpe::training
