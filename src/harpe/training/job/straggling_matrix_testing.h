#pragma once
/// \file
/// Training with every kind of straggling, with a job and, for comparison, on the same machines
/// without Harpe.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/plan/frontier/frontier.h"
#include "harpe/training/emulated_training/straggling_testing.h"
#include "harpe/training/job/played_training_testing.h"

namespace harpe::training {

/// One cell of the matrix.
struct StragglingCase {
  int data = 3, stages = 4;
  StragglingFault error = {};
  bool declared = false;

  std::string text() const;
};

struct StragglingOutcome {
  std::optional<int> found_after;  ///< iterations
  std::string cause;               ///< as named by the job
  double first_time = 1;           ///< of the first ten iterations, relative to all-max
  double time = 1;                 ///< of the iterations after the first ten
  double worst_ten = 1;            ///< of the slowest ten of these in a row
  double healed_time = 1;          ///< after it has healed, from the tenth iteration on
  std::int64_t profiled = 0;       ///< iterations spent profiling while it lasts
  /// Share of the saving of plans that know everything. Nullopt if that saving is zero or
  /// straggling is not constant.
  std::optional<double> saved_share;
  double saved = 0;  ///< energy, relative to all-max
};

/// Plays one case.
class StragglingRun {
 public:
  explicit StragglingRun(const StragglingCase& given);

  StragglingOutcome run();

  std::vector<JobEvent> events;

 private:
  void declare(Job& job, bool straggles, Seconds now) const;
  std::vector<std::pair<int, double>> declared_factors() const;
  void watch(Job& job, PlayedTraining& training, StragglingOutcome& outcome) const;
  void save_energy(const PlayedTraining& training, StragglingOutcome& outcome) const;
  std::vector<double> factors(int pipeline) const;
  Frontier frontier(int pipeline) const;

  StragglingCase case_;
  JobSpec spec_;
  Profile truth_;
};

}  // namespace harpe::training
