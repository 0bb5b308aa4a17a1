// States of Zeus's optimizer that the recorded runs of limit_replay_test.cc do not reach.

#include "harpe/lab/replay/zeus_optimizer.h"

#include <gtest/gtest.h>

#include <limits>

#include "harpe/zeus/power_limit/power_limits_testing.h"

namespace harpe::lab {
namespace {

using ActionKind = zeus::KnobAction::Kind;

ZeusOptimizer optimizer_with(std::vector<double> limits, ZeusOptions options) {
  return ZeusOptimizer::make(
             zeus::Knob::make(zeus::KnobKind::kPowerLimit, std::move(limits)).take(), options)
      .take();
}

TEST(ZeusOptimizer, WorksWithoutWarmUp) {
  ZeusOptimizer optimizer =
      optimizer_with({300, 200}, {.wait_steps = 0, .warmup_steps = 0, .profile_steps = 1});
  EXPECT_EQ(optimizer.start(), (zeus::KnobActions{{ActionKind::kSet, 0}}));
  EXPECT_EQ(optimizer.on_step_begin(), (zeus::KnobActions{{ActionKind::kOpenWindow}}));
  EXPECT_EQ(optimizer.on_step_begin(), (zeus::KnobActions{{ActionKind::kCloseWindow}}));
  EXPECT_EQ(optimizer.on_window({1}, {250}),
            (zeus::KnobActions{{ActionKind::kSet, 1}, {ActionKind::kOpenWindow}}));
  EXPECT_EQ(optimizer.on_step_begin(), (zeus::KnobActions{{ActionKind::kCloseWindow}}));
  EXPECT_EQ(optimizer.on_window({2}, {400}), (zeus::KnobActions{{ActionKind::kSet, 0}}));
  EXPECT_TRUE(optimizer.done());
  EXPECT_EQ(optimizer.choice(), 0U);
  EXPECT_TRUE(optimizer.on_step_begin().empty());
  EXPECT_TRUE(optimizer.on_epoch_end().empty());
}

TEST(ZeusOptimizer, CancelsTheWindowWhenTheEpochEnds) {
  ZeusOptimizer optimizer =
      optimizer_with({300, 200}, {.wait_steps = 0, .warmup_steps = 1, .profile_steps = 3});
  (void)optimizer.start();
  EXPECT_TRUE(optimizer.on_step_begin().empty());
  EXPECT_EQ(optimizer.on_step_begin(), (zeus::KnobActions{{ActionKind::kOpenWindow}}));
  EXPECT_EQ(optimizer.on_epoch_end(), (zeus::KnobActions{{ActionKind::kCancelWindow}}));
  EXPECT_TRUE(optimizer.measurements().empty());
}

TEST(ZeusOptimizer, MeasuresAgainWhatIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ZeusOptimizer optimizer =
      optimizer_with({300}, {.wait_steps = 0, .warmup_steps = 0, .profile_steps = 1});
  (void)optimizer.start();
  (void)optimizer.on_step_begin();
  (void)optimizer.on_step_begin();
  (void)optimizer.on_window({1}, {nan});
  EXPECT_FALSE(optimizer.done());
  (void)optimizer.on_step_begin();
  (void)optimizer.on_window({1}, {100});
  EXPECT_EQ(optimizer.choice(), 0U);
}

TEST(ZeusOptimizer, HasNothingToSetOnGpusWithoutLimits) {
  ZeusOptimizer optimizer = optimizer_with({}, {});
  EXPECT_TRUE(optimizer.start().empty());
  EXPECT_TRUE(optimizer.done());
  EXPECT_FALSE(optimizer.choice().has_value());
}

TEST(ZeusOptimizer, RefusesWrongOptions) {
  const zeus::Knob knob = zeus::power_limits({100}, {300});
  EXPECT_FALSE(ZeusOptimizer::make(knob, {.selector = {.eta = -0.1}}).ok());
  EXPECT_FALSE(ZeusOptimizer::make(knob, {.wait_steps = -1}).ok());
  EXPECT_FALSE(ZeusOptimizer::make(knob, {.warmup_steps = -1}).ok());
  EXPECT_FALSE(ZeusOptimizer::make(knob, {.profile_steps = 0}).ok());
}

}  // namespace
}  // namespace harpe::lab
