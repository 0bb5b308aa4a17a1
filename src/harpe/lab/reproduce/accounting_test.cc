// The rules by which Perseus's evaluation counts savings, computed by hand.

#include <gtest/gtest.h>

#include "harpe/lab/reproduce/artifact.h"

namespace harpe::lab {
namespace {

TEST(Accounting, APipelineThatWaitsDrawsBlockingPower) {
  const IterationFigures waited = waiting_until({2.0_s, 100.0_J}, 3.0_s, 10.0_W);
  EXPECT_EQ(waited.time, 3.0_s);
  EXPECT_EQ(waited.energy, 110.0_J);
}

TEST(Accounting, AJobIsItsStragglerAndThePipelinesThatWaitForIt) {
  const StragglingJob job{.pipelines = 4, .slowdown = 1.5, .waiting_power = 10.0_W};
  // 1.5 x 100 J for the straggler; 80 J and 0.5 s of waiting for each of the other three.
  EXPECT_DOUBLE_EQ(job.energy({2.0_s, 100.0_J}, {2.5_s, 80.0_J}, 3.0_s).value, 150 + 3 * 85);
  EXPECT_DOUBLE_EQ(saving_percent(405.0_J, 450.0_J), 10);
}

}  // namespace
}  // namespace harpe::lab
