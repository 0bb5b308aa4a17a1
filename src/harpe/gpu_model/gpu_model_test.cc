#include "harpe/gpu_model/gpu_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harpe {
namespace {

using testing::HasSubstr;

TEST(GpuModels, AreFoundByNameInAnyCase) {
  for (const GpuModel& gpu : gpu_models()) EXPECT_EQ(find_gpu_model(gpu.name), &gpu);
  EXPECT_NE(find_gpu_model("A100-SXM"), nullptr);
  EXPECT_EQ(find_gpu_model("a100-smx"), nullptr);
  EXPECT_THAT(unknown_gpu_model("a100-smx"), HasSubstr("is 'a100-sxm' meant?"));
}

TEST(GpuModels, DrawMoreAtHigherClocksAndStaticPlusDynamicAtTheTop) {
  for (const GpuModel& gpu : gpu_models()) {
    EXPECT_DOUBLE_EQ(demanded_power(gpu, 1), (gpu.static_power + gpu.dynamic_power).value);
    EXPECT_DOUBLE_EQ(dynamic_share(gpu, 1), 1);
    for (double x = 0.2; x < 1; x += 0.01) {
      EXPECT_LT(dynamic_share(gpu, x), dynamic_share(gpu, x + 0.01)) << gpu.name << " at " << x;
    }
  }
}

TEST(ThrottledClock, KeepsPowerUnderTheLimitAndNeverRaisesTheClock) {
  for (GpuModel gpu : gpu_models()) {
    for (const double share : {1.2, 1.0, 0.8, 0.6}) {
      gpu.power_limit = demanded_power(gpu, 1) * share * Watts{1};
      for (double x = 0.3; x <= 1; x += 0.05) {
        const double given = throttled_clock(gpu, x);
        EXPECT_LE(given, x);
        EXPECT_LE(demanded_power(gpu, given), gpu.power_limit.value + 1e-9);
        EXPECT_LE(throttled_speed(gpu, x, given), given);
      }
    }
  }
}

}  // namespace
}  // namespace harpe
