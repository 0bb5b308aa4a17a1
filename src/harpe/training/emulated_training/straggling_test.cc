// Every kind of straggling slows training until it is healed.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "harpe/plan/profile/synth.h"
#include "harpe/training/emulated_training/emulation.h"
#include "harpe/training/emulated_training/straggling_testing.h"

namespace harpe::training {
namespace {

constexpr EmulatedMachines::Options kStragglingExact{.noise = 0};

JobSpec straggling_spec() {
  JobSpec spec;
  spec.shape = {.data = 2, .stages = 3, .tensor = 1};
  spec.schedule = *one_f_one_b({.stages = 3, .micro_batches = 6});
  return spec;
}

Profile straggling_truth() {
  return *synthesize({.stages = 3, .imbalance = 1.3});
}

/// Returns the mean time of the next iterations.
Seconds mean_time(EmulatedTraining& training, int iterations) {
  const Seconds begin = training.now();
  for (int i = 0; i < iterations; ++i) (void)training.iterate();
  return (training.now() - begin) / iterations;
}

class StragglingOfEveryKind : public testing::TestWithParam<Straggling> {};

TEST_P(StragglingOfEveryKind, SlowsTrainingUntilItIsHealed) {
  EmulatedTraining training(straggling_spec(), straggling_truth(), kStragglingExact);
  const Seconds usual = mean_time(training, 50);
  const StragglingFault error{.straggling = GetParam(), .factor = 1.5};
  inject(error, training.next_iteration(), training);
  const Seconds straggling = mean_time(training, 50);
  EXPECT_GT(straggling, usual * 1.01);
  EXPECT_LT(straggling, usual * 1.6);
  training.heal();
  EXPECT_NEAR(mean_time(training, 50).value, usual.value, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Kinds, StragglingOfEveryKind, testing::ValuesIn(kAllStraggling),
                         [](const testing::TestParamInfo<Straggling>& one) {
                           std::string name;
                           for (const char c : std::string(name_of(one.param)))
                             name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

/// Each pipeline is emulated alone, as planners treat pipelines.
TEST(Straggling, TakesWhatTheSlowedCostsSay) {
  for (const Straggling straggling :
       {Straggling::kOffCritical, Straggling::kCritical, Straggling::kPipeline, Straggling::kTwo,
        Straggling::kGrowing, Straggling::kStructural}) {
    SCOPED_TRACE(name_of(straggling));
    const StragglingFault error{.straggling = straggling, .factor = 1.5};
    EmulatedTraining training(straggling_spec(), straggling_truth(), kStragglingExact);
    inject(error, 0, training);
    (void)mean_time(training, StragglingFault::kGrows + 1);
    Seconds longest{0};
    for (int pipeline = 0; pipeline < straggling_spec().shape.data; ++pipeline) {
      JobSpec alone = straggling_spec();
      alone.shape.data = 1;
      EmulatedTraining slow(
          alone,
          slowed(straggling_truth(), factors_of_stages(error, straggling_spec().shape, pipeline)),
          kStragglingExact);
      (void)slow.iterate();
      longest = std::max(longest, slow.last().time);
    }
    EXPECT_NEAR(training.last().time.value, longest.value, 1e-9);
  }
}

}  // namespace
}  // namespace harpe::training
