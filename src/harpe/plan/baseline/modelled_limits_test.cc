#include "harpe/plan/baseline/modelled_limits.h"

#include <gtest/gtest.h>

#include "harpe/plan/baseline/one_setting.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::plan {
namespace {

class ModelledLimits : public testing::TestWithParam<GpuModel> {
 protected:
  const GpuModel& gpu() const { return GetParam(); }
  static GpuModel with_limit(GpuModel gpu, Watts limit) {
    gpu.power_limit = limit;
    return gpu;
  }
  std::vector<OperatingPoint> sweep(double memory_bound) const {
    std::vector<OperatingPoint> points;
    for (int clock = gpu().max_clock.value; clock > 0.5 * gpu().max_clock.value;
         clock -= gpu().clock_step) {
      points.push_back(run_on(gpu(), Megahertz{clock}, Seconds{0.05}, memory_bound));
    }
    return {points.rbegin(), points.rend()};
  }
};

/// The oracle is the model of the GPU itself, with the limit.
TEST_P(ModelledLimits, AgreeWithTheModelOfTheProfile) {
  for (const double memory_bound : {0.0, 0.1, 0.4}) {
    const auto points = sweep(memory_bound);
    int compared = 0;
    for (double share = 1; share > 0.5; share -= 0.05) {
      const Watts limit = gpu().power_limit * share;
      const auto found = under_limit(points, limit, gpu());
      if (!found) break;
      const OperatingPoint truth =
          run_on(with_limit(gpu(), limit), gpu().max_clock, Seconds{0.05}, memory_bound);
      EXPECT_NEAR(found->time / truth.time, 1, 0.02) << gpu().name << ' ' << limit.value << " W";
      EXPECT_NEAR(found->energy / truth.energy, 1, 0.03) << gpu().name << ' ' << limit.value;
      EXPECT_EQ(found->knobs.power_limit, limit);
      EXPECT_EQ(found->clock, gpu().max_clock);
      ++compared;
    }
    EXPECT_GE(compared, 2) << gpu().name;
  }
}

INSTANTIATE_TEST_SUITE_P(Gpus, ModelledLimits, testing::ValuesIn(gpu_models()),
                         [](const auto& test) {
                           std::string name(test.param.name);
                           std::erase(name, '-');
                           return name;
                         });

TEST(ModelledLimitsOfAPipeline, SlowDownAsTheyFall) {
  const auto schedule = one_f_one_b({.stages = 4, .micro_batches = 8});
  const auto profile = synthesize({.gpu = "a100-sxm", .stages = 4, .split_backward = true});
  const auto frontier = characterize(schedule, *profile, {.blocking_power = Watts{80}});
  ASSERT_TRUE(frontier.ok());
  const auto limits = modelled_limits(*frontier, *find_gpu_model("a100-sxm"));
  ASSERT_TRUE(limits.ok()) << limits.error().text();
  const auto curve = one_setting_curve(*limits, VariedKnob::kPowerLimit);
  ASSERT_GE(curve.size(), 10U);
  EXPECT_GT(curve.front().setting.knobs.power_limit, curve.back().setting.knobs.power_limit);
  const Plan all_max = frontier->all_max();
  EXPECT_NEAR(curve.front().iteration_time / all_max.iteration_time, 1, 0.02);
  EXPECT_LT(curve.back().iteration_energy, 0.9 * all_max.iteration_energy);
}

TEST(ModelledLimitsOfAPipeline, EndWhereTheProfileHasNoLowerClock) {
  const std::vector<OperatingPoint> points = {{Megahertz{1200}, Seconds{1.1}, Joules{330}},
                                              {Megahertz{1400}, Seconds{1.0}, Joules{400}}};
  GpuModel gpu = *find_gpu_model("a100-sxm");
  gpu.limit_softness = 0;
  const auto half = under_limit(points, Watts{350}, gpu);
  ASSERT_TRUE(half);
  EXPECT_DOUBLE_EQ(half->time.value, 1.05);
  EXPECT_DOUBLE_EQ(half->energy.value, 350 * 1.05);
  EXPECT_FALSE(under_limit(points, Watts{299}, gpu));
  EXPECT_FALSE(under_limit({}, Watts{299}, gpu));
}

}  // namespace
}  // namespace harpe::plan
