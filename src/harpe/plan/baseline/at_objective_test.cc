#include "harpe/plan/baseline/at_objective.h"

#include <gtest/gtest.h>

namespace harpe::plan {
namespace {

using Kind = Objective::Kind;

OneSettingPoint at_clock(int clock, double time, double energy) {
  return {.setting = {Megahertz{clock}, {}},
          .iteration_time = Seconds{time},
          .iteration_energy = Joules{energy}};
}

class AtObjectiveTest : public testing::Test {
 protected:
  /// Returns the chosen clock, negated if it does not meet the objective.
  int clock_for(Objective objective) const {
    const auto found = at_objective(curve_, objective, {Seconds{1}, Seconds{1.01}});
    if (!found) return 0;
    return found->point.setting.clock.value * (found->meets_it ? 1 : -1);
  }

 private:
  std::vector<OneSettingPoint> curve_ = {at_clock(1400, 1.0, 100), at_clock(1300, 1.1, 80),
                                         at_clock(1100, 1.3, 70)};
};

TEST_F(AtObjectiveTest, TakesTheLeastEnergyInTime) {
  EXPECT_EQ(clock_for({Kind::kSlowdown, 0}), 1400);
  EXPECT_EQ(clock_for({Kind::kSlowdown, 0.0995}), 1300) << "within 0.1 %";
  EXPECT_EQ(clock_for({Kind::kSlowdown, 0.098}), 1400);
  EXPECT_EQ(clock_for({Kind::kDeadline, 9}), 1100);
  EXPECT_EQ(clock_for({Kind::kDeadline, 0.9}), -1400) << "too slow, but the fastest";
  EXPECT_EQ(clock_for({Kind::kStragglerFactor, 1.2}), 1300);
  EXPECT_EQ(clock_for({Kind::kLeastEnergy, 0}), 1100);
}

TEST_F(AtObjectiveTest, TakesTheFastestWithinACap) {
  EXPECT_EQ(clock_for({Kind::kPowerCap, 100}), 1400);
  EXPECT_EQ(clock_for({Kind::kPowerCap, 99}), 1300);
  EXPECT_EQ(clock_for({Kind::kPowerCap, 50}), -1100) << "draws 54 W, the least there is";
}

TEST(AtObjective, ACurveWithoutPointsHasNone) {
  EXPECT_FALSE(at_objective({}, {Kind::kLeastEnergy, 0}, {}));
}

}  // namespace
}  // namespace harpe::plan
