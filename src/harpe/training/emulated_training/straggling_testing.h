#pragma once
/// \file
/// Kinds of straggling, injected into emulated machines.
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
  kTwo,          ///< both of the GPUs above, on two pipelines if there are two
  kGrowing,      ///< one GPU of the first stage, slower with each iteration
  kHeld,         ///< one GPU of the first stage, held to a clock
  kStructural,   ///< the first stage on all pipelines
  kRandom,       ///< another GPU in every iteration
  kStalls,       ///< every 25 iterations, a pause as long as many iterations
};
inline constexpr Straggling kAllStraggling[] = {
    Straggling::kOffCritical, Straggling::kCritical, Straggling::kPipeline,
    Straggling::kTwo,         Straggling::kGrowing,  Straggling::kHeld,
    Straggling::kStructural,  Straggling::kRandom,   Straggling::kStalls};
/// Returns a readable name.
const char* name_of(Straggling straggling);

struct StragglingFault {
  Straggling straggling = Straggling::kOffCritical;
  double factor = 1.3;
  std::uint64_t seed = 1;  ///< seed of the random choices

  /// Number of iterations after the onset in which `kGrowing` grows.
  static constexpr int kGrows = 40;
};

/// Returns the factor of each stage of a pipeline at its slowest, without `kRandom` and `kStalls`.
std::vector<double> factors_of_stages(const StragglingFault& error, const JobShape& shape,
                                      int pipeline);

/// Injects an error that lasts until `EmulatedMachines::heal`.
/// \param onset  first iteration of `kGrowing`
void inject(const StragglingFault& error, std::int64_t onset, EmulatedMachines& machines);

/// Returns the costs of a pipeline whose stages take these factors of their time and energy.
Profile slowed(const Profile& costs, const std::vector<double>& factors_of_stages);

}  // namespace harpe::training
