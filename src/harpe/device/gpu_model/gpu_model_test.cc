#include "harpe/device/gpu_model/gpu_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harpe::device {
namespace {

using testing::HasSubstr;

TEST(GpuModels, AreFoundByNameInAnyCase) {
  for (const GpuModel& gpu : gpu_models()) EXPECT_EQ(find_gpu_model(gpu.name), &gpu);
  EXPECT_NE(find_gpu_model("A100-SXM"), nullptr);
  EXPECT_EQ(find_gpu_model("a100-smx"), nullptr);
  EXPECT_THAT(unknown_gpu_model("a100-smx"), HasSubstr("is 'a100-sxm' meant?"));
}

TEST(GpuModels, ANameWrittenInAnotherWayIsUnderstoodToBeMeant) {
  EXPECT_THAT(unknown_gpu_model("h-100"), HasSubstr("is 'h100-sxm' meant?"));
  EXPECT_THAT(unknown_gpu_model("NVIDIA H200"), HasSubstr("is 'h200-sxm' meant?"));
  EXPECT_THAT(unknown_gpu_model("H100-SXM5-80GB"), HasSubstr("is 'h100-sxm' meant?"));
  EXPECT_THAT(unknown_gpu_model("4090"), HasSubstr("is 'rtx-4090' meant?"));
  EXPECT_THAT(unknown_gpu_model("MI-300X"), HasSubstr("is 'mi300x' meant?"));
  EXPECT_THAT(unknown_gpu_model("a100"), HasSubstr("is 'a100-sxm' or 'a100-pcie' meant?"));
  EXPECT_THAT(unknown_gpu_model("h100-pcie"), HasSubstr("; is 'h100-sxm' meant?"));
  EXPECT_THAT(unknown_gpu_model("GH-200"), HasSubstr("is 'gh200' meant?"));
  EXPECT_THAT(unknown_gpu_model("b200"), HasSubstr("is 'b200-sxm' meant?"));
  EXPECT_THAT(unknown_gpu_model("h-100", {"h100-sxm", "other"}),
              HasSubstr("is 'h100-sxm' meant? (known: h100-sxm, other)"));
  EXPECT_THAT(unknown_gpu_model("tpu"), testing::Not(HasSubstr("meant")));
}

TEST(GpuModels, AreFoundByWhatDriversCallTheGpu) {
  const auto model = [](std::string_view product) -> std::string_view {
    const GpuModel* gpu = model_of_gpu(product);
    return gpu == nullptr ? "" : gpu->name;
  };
  EXPECT_EQ(model("NVIDIA A100-SXM4-80GB"), "a100-sxm");
  EXPECT_EQ(model("A100-SXM4-40GB"), "a100-sxm");
  EXPECT_EQ(model("NVIDIA A100 80GB PCIe"), "a100-pcie");
  EXPECT_EQ(model("NVIDIA A100-PCIE-40GB"), "a100-pcie");
  EXPECT_EQ(model("NVIDIA A40"), "a40");
  EXPECT_EQ(model("NVIDIA RTX A4000"), "");
  EXPECT_EQ(model("NVIDIA H100 80GB HBM3"), "h100-sxm");
  EXPECT_EQ(model("NVIDIA H100 PCIe"), "");
  EXPECT_EQ(model("NVIDIA H100 NVL"), "");
  EXPECT_EQ(model("NVIDIA H200"), "h200-sxm");
  EXPECT_EQ(model("NVIDIA H200 NVL"), "");
  EXPECT_EQ(model("NVIDIA B200"), "b200-sxm");
  EXPECT_EQ(model("NVIDIA GH200 480GB"), "gh200");
  EXPECT_EQ(model("NVIDIA GB200"), "gb200");
  EXPECT_EQ(model("AMD Instinct MI300X"), "mi300x");
  EXPECT_EQ(model("NVIDIA L40S"), "l40s");
  EXPECT_EQ(model("NVIDIA L40"), "");
  EXPECT_EQ(model("NVIDIA GeForce RTX 4090"), "rtx-4090");
  EXPECT_EQ(model("NVIDIA GeForce RTX 4090 Laptop GPU"), "");
  EXPECT_EQ(model("simulated"), "");
  EXPECT_EQ(model(""), "");
}

TEST(GpuModels, HaveClocksPowersAndVoltagesThatAGpuCanHave) {
  for (const GpuModel& gpu : gpu_models()) {
    SCOPED_TRACE(gpu.name);
    EXPECT_GE(gpu.min_clock.value, 100);
    EXPECT_LE(gpu.min_clock.value * 4, gpu.max_clock.value);
    EXPECT_LE(gpu.max_clock.value, 3000);
    EXPECT_GE(gpu.min_voltage, 0.7);
    EXPECT_LE(gpu.min_voltage, 0.9);
    EXPECT_GE(gpu.knee, 0.6);
    EXPECT_LE(gpu.knee, 0.95);
    EXPECT_GT(gpu.static_power.value, 0.08 * gpu.power_limit.value);
    EXPECT_LT(gpu.blocking_power, gpu.power_limit * 0.3);
    EXPECT_GT(gpu.blocking_power.value, gpu.static_power.value * 0.8);
    EXPECT_GT(demanded_power(gpu, 1), 0.8 * gpu.power_limit.value);
    EXPECT_LT(demanded_power(gpu, 1), 1.4 * gpu.power_limit.value);
  }
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
}  // namespace harpe::device
