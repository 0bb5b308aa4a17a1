#pragma once
/// \file
/// What iterations of the machines at hand take with every instruction at its highest clock: what
/// training would take without Harpe. The yardstick of every promise and every saving.
///
/// Of each such iteration, the time beyond what its computations explain (optimizer, gradient
/// exchange, data) and the energy are kept; the medians of the newest 15 count, so that stalls and
/// first iterations do not. Not thread-safe.

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "harpe/base/units.h"

namespace harpe {

class AllMaxBaseline {
 public:
  static constexpr std::size_t kNewest = 15;

  explicit AllMaxBaseline(int stages) : energy_(static_cast<std::size_t>(stages)) {}

  /// \param time      of the iteration
  /// \param explained  of it, by its computations: the makespan of its slowest pipeline; 0: unknown
  void add_time(Seconds time, Seconds explained);
  /// \param energy  of each stage, mean of the pipelines, all shards; NaN: not measured
  void add_energy(std::span<const double> energy);

  /// Where `add_time` did not know it yet.
  void explain(Seconds explained);

  bool has_time() const { return !times_.empty(); }
  bool has_energy() const;
  std::size_t iterations() const { return times_.size(); }
  Seconds time() const;
  /// Of an iteration beyond its computations; negative where these are overestimated.
  Seconds overhead() const;
  /// Robust relative standard deviation of a single iteration's time.
  double deviation() const;
  Joules energy(int stage) const;
  Joules energy() const;  ///< of all stages
  /// Half-width of the 95 % interval of `energy`.
  Joules energy_error() const;

  /// What a snapshot keeps: of each iteration the time and what explains it; energies by stage.
  struct Kept {
    std::vector<double> time, explained;
    std::vector<std::vector<double>> energy;
  };
  Kept kept() const;
  void restore(const Kept& kept);
  void forget_time() { times_.clear(); }
  void forget_energy();
  void forget();

 private:
  struct Time {
    Seconds time, explained;
  };
  std::deque<Time> times_;
  std::vector<std::deque<double>> energy_;
};

}  // namespace harpe
