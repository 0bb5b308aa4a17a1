#pragma once
/// \file
/// What iterations of the machines at hand take with every instruction at its highest clock: what
/// training would take without Harpe. The yardstick of every promise and every saving.
///
/// Of each such iteration, the time and the energy beyond what its own computations explain
/// (optimizer, gradient exchange, data) are what stays when a straggler comes or goes. The medians
/// of the newest 15 count, so that stalls and first iterations do not; of an even number of times,
/// which stalls only lengthen, the lower one in the middle. Not thread-safe.

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

  /// \param time       of the iteration
  /// \param explained  of it, by its computations: the makespan of its slowest pipeline; 0: unknown
  /// \param computing  where that is unknown, of the computations of each stage of the pipelines
  ///                   that may be the slowest, one pipeline after the other
  void add_time(Seconds time, Seconds explained, std::vector<Seconds> computing = {});
  /// Of a stage, all shards, mean of the pipelines.
  struct StageEnergy {
    double energy = 0;    ///< J; NaN: not measured
    Seconds time{};       ///< of the iteration
    Seconds computing{};  ///< of it, in computations; 0: not known
  };
  void add_energy(std::span<const StageEnergy> stages);

  /// What computations explain, where `add_time` did not know it yet.
  void explain(const std::function<Seconds(std::span<const Seconds> computing)>& explained);

  /// Of one nothing says whether it was held up.
  bool has_time() const { return times_.size() >= 2; }
  bool has_energy() const {
    return std::ranges::none_of(energy_, [](const auto& stage) { return stage.empty(); });
  }
  std::size_t iterations() const { return times_.size(); }
  Seconds time() const;
  /// Of an iteration beyond its computations; negative where these are overestimated.
  Seconds overhead() const;
  /// Robust relative standard deviation of a single iteration's time.
  double deviation() const;
  Joules energy() const;  ///< of all stages of a pipeline
  /// What computations and waiting explain of a stage's energy.
  using Explained = std::function<double(int stage, const StageEnergy& iteration)>;
  /// Returns the joules of a pipeline beyond what is explained, one value for each iteration that
  /// was added since the last call (at most the newest 15), oldest first. Iterations without the
  /// energy of a stage are left out.
  std::vector<double> take_unexplained(const Explained& explained);
  /// Excludes the iterations added so far from the next `take_unexplained`.
  void leave_untaken() { added_ = 0; }
  /// The median of one stage.
  double unexplained(int stage, const Explained& explained) const;

  /// What a snapshot keeps.
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
