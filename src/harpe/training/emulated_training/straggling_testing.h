#pragma once
/// \file
/// The ways in which training straggles, put upon emulated machines.
///
///   const StragglingFault error{.straggling = Straggling::kCritical, .factor = 1.3};
///   inject(error, training.next_iteration(), training);

#include <cstdint>
#include <vector>

#include "harpe/plan/profile/profile.h"
#include "harpe/training/emulated_training/emulated_machines.h"

namespace harpe::training {

enum class Straggling : unsigned char {
  kOffCritical,  ///< one GPU, of the first stage, which has slack
  kCritical,     ///< one GPU, of the last stage, which has none
  kPipeline,     ///< all GPUs of a pipeline
  kTwo,          ///< one GPU of each kind above, on two pipelines where there are
  kGrowing,      ///< one GPU of the first stage, more from iteration to iteration
  kHeld,         ///< one GPU of the first stage, held to a clock
  kStructural,   ///< the first stage on all pipelines
  kRandom,       ///< in every iteration another GPU
  kStalls,       ///< every 25 iterations a pause of many iterations
};
inline constexpr Straggling kAllStraggling[] = {
    Straggling::kOffCritical, Straggling::kCritical, Straggling::kPipeline,
    Straggling::kTwo,         Straggling::kGrowing,  Straggling::kHeld,
    Straggling::kStructural,  Straggling::kRandom,   Straggling::kStalls};
/// For people.
const char* name_of(Straggling straggling);

struct StragglingFault {
  Straggling straggling = Straggling::kOffCritical;
  double factor = 1.3;
  std::uint64_t seed = 1;  ///< of what is random

  /// In which iterations after the onset one that grows does.
  static constexpr int kGrows = 40;
};

/// Of each stage of a pipeline, once it is as slow as it gets. What comes and goes is not in it.
std::vector<double> factors_of_stages(const StragglingFault& error, const JobShape& shape,
                                      int pipeline);

/// Lasts until `EmulatedMachines::heal`.
/// \param onset  the first iteration that it grows in
void inject(const StragglingFault& error, std::int64_t onset, EmulatedMachines& machines);

/// The costs of a pipeline whose stages take so many times as long and as much.
Profile slowed(const Profile& costs, const std::vector<double>& factors_of_stages);

}  // namespace harpe::training
