#pragma once
/// \file
/// Time and energy of iterations with every instruction at its highest clock on the present
/// machines: the costs of training without Harpe, against which every promise and saving is judged.
///
/// Such an iteration takes time and energy beyond its own computations (optimizer, gradient
/// exchange, data), which do not change when a straggler appears or recovers. They are medians of
/// the newest 15, which ignore stalls and first iterations. For an even number of times, the median
/// is the lower middle value, because stalls only lengthen times. Not thread-safe.

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "harpe/base/units.h"

namespace harpe::training {

class AllMaxBaseline {
 public:
  static constexpr std::size_t kNewest = 15;

  explicit AllMaxBaseline(int stages) : energy_(static_cast<std::size_t>(stages)) {}

  /// Adds the time of an iteration.
  /// \param time       of the iteration
  /// \param explained  by its computations: the makespan of its slowest pipeline; 0 if not known
  /// \param computing  if that is not known: time in computations of each stage of the pipelines
  ///                   that may be the slowest, one pipeline after the other
  void add_time(Seconds time, Seconds explained, std::vector<Seconds> computing = {});
  /// A stage in an iteration: energy of all shards, mean of the pipelines.
  struct StageEnergy {
    double energy = 0;    ///< J; NaN if not measured
    Seconds time{};       ///< of the iteration
    Seconds computing{};  ///< time in computations; 0 if not known
  };
  void add_energy(std::span<const StageEnergy> stages);

  /// Sets the part due to computations of the iterations for which `add_time` did not have it.
  void explain(const std::function<Seconds(std::span<const Seconds> computing)>& explained);

  /// Returns true if two iterations are known: a single one may have been delayed.
  bool has_time() const { return times_.size() >= 2; }
  bool has_energy() const {
    return std::ranges::none_of(energy_, [](const auto& stage) { return stage.empty(); });
  }
  std::size_t iterations() const { return times_.size(); }
  Seconds time() const;
  /// Returns the time of an iteration beyond its computations; negative if these are overestimated.
  Seconds overhead() const;
  /// Returns the robust relative standard deviation of a single iteration's time.
  double deviation() const;
  Joules energy() const;  ///< of all stages of a pipeline
  /// Returns the joules of a stage that its computations and waiting explain.
  using Explained = std::function<double(int stage, const StageEnergy& iteration)>;
  /// Returns the joules of a pipeline beyond what is explained, one value for each iteration that
  /// was added since the last call (at most the newest 15), oldest first. Iterations without the
  /// energy of a stage are left out.
  std::vector<double> take_unexplained(const Explained& explained);
  /// Excludes the iterations added so far from the next `take_unexplained`.
  void leave_untaken() { added_ = 0; }
  /// Returns the median of the unexplained joules of one stage.
  double unexplained(int stage, const Explained& explained) const;

  /// The state for a snapshot.
  struct Time {
    Seconds time, explained;
    std::vector<Seconds> computing;
  };
  struct Kept {
    std::vector<Time> times;
    std::vector<std::vector<StageEnergy>> energy;  ///< by stage
    std::size_t not_taken = 0;                     ///< see `take_unexplained`
  };
  Kept kept() const;
  void restore(const Kept& kept);
  void forget_time() { times_.clear(); }
  void forget();

 private:
  std::vector<double> overheads() const;  ///< seconds beyond what computations explain
  std::deque<Time> times_;
  std::vector<std::deque<StageEnergy>> energy_;
  std::size_t added_ = 0;  ///< iterations whose energy was not taken yet
};

}  // namespace harpe::training
