#include "harpe/device/hw/sim/simulation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harpe/base/file.h"
#include "harpe/base/source_tree_testing.h"
#include "harpe/device/gpu_model/gpu_model.h"

namespace harpe::device {
namespace {

using testing::HasSubstr;

TEST(SimulationConfig, HasGoodDefaults) {
  const auto config = parse_simulation("[[gpu]]\nmodel = \"a100-sxm\"\ncount = 4\n", "s.toml");
  ASSERT_TRUE(config.ok()) << config.error().text();
  ASSERT_EQ(config->gpus.size(), 4u);
  EXPECT_EQ(config->gpus[3].name, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(config->gpus[3].pci, "0000:0a:00.0");
  EXPECT_THAT(config->gpus[3].uuid,
              testing::MatchesRegex("GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-"
                                    "[0-9a-f]{12}"));
  EXPECT_NE(config->gpus[0].counter_phase_ns, config->gpus[1].counter_phase_ns);
  EXPECT_FALSE(config->shared_by_everyone);
}

TEST(SimulationConfig, TakesEveryKeyOfTheSeed) {
  const auto text = read_file(std::string(source_tree()) +
                              "/src/harpe/device/hw/fuzz_corpus/simulation_config_fuzz/full.toml");
  ASSERT_TRUE(text.ok());
  const auto config = parse_simulation(*text, "s.toml");
  ASSERT_TRUE(config.ok()) << config.error().text();
  EXPECT_EQ(config->gpus.size(), 3u);
  EXPECT_TRUE(config->gpus[1].mig);
  EXPECT_TRUE(config->gpus[2].module_scope);
  EXPECT_EQ(config->gpus[1].faults.size(), 3u);
  EXPECT_EQ(config->gpus[0].faults.size(), 2u);
}

TEST(SimulationConfig, ShowsAllFaultsWithTheirPlaces) {
  const auto config = parse_simulation(
      "set = \"nobody\"\n"
      "[[gpu]]\nmodel = \"a100-smx\"\ncuont = 4\n"
      "[[gpu]]\nmodel = \"a40\"\npower_limit_w = 0\nmin_clock_mhz = 1740\n"
      "[[fault]]\nkind = \"explosion\"\n"
      "[[fault]]\nkind = \"counter_reset\"\nafter_calls = 3\ngpu = 7\n",
      "s.toml");
  ASSERT_FALSE(config.ok());
  const std::string text = config.error().text();
  EXPECT_THAT(text, HasSubstr("s.toml:1:"));
  EXPECT_THAT(text,
              HasSubstr("s.toml:3:9: model: unknown GPU model 'a100-smx'; is 'a100-sxm' meant?"));
  EXPECT_THAT(text, HasSubstr("did you mean 'count'?"));
  EXPECT_THAT(text, HasSubstr("power_limit_w: expected 1 to 20000"));
  EXPECT_THAT(text, HasSubstr("the highest clock must be above the lowest"));
  EXPECT_THAT(text, HasSubstr("not 'explosion'"));
  EXPECT_THAT(text, HasSubstr("counter_reset begins at a time (at_s), not at a call"));
  EXPECT_THAT(text, HasSubstr("gpu: expected an integer from 0 to 1"));
}

TEST(SimulationConfig, KnowsTheModelsOfSyntheticProfiles) {
  for (const GpuModel& gpu : gpu_models()) {
    const auto config =
        parse_simulation("[[gpu]]\nmodel = \"" + std::string(gpu.name) + "\"\n", "s.toml");
    if (gpu.name == "mi300x") {  // its driver has no NVML
      ASSERT_FALSE(config.ok());
      EXPECT_THAT(
          config.error().text(),
          HasSubstr("the GPU mi300x has a model for synthetic profiles, but no simulation"));
      continue;
    }
    ASSERT_TRUE(config.ok()) << config.error().text();
    EXPECT_EQ(model_of_gpu(config->gpus[0].name), &gpu) << config->gpus[0].name;
  }
  const auto config = parse_simulation("[[gpu]]\nmodel = \"H100\"\n", "s.toml");
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().text(), HasSubstr("is 'h100-sxm' meant?"));
}

TEST(SimulationConfig, RefusesWhatCannotBeSimulated) {
  const auto fault_of = [](const std::string& toml) {
    const auto config = parse_simulation(toml, "s.toml");
    return config.ok() ? std::string() : config.error().text();
  };
  EXPECT_THAT(fault_of(""), HasSubstr("at least one"));
  EXPECT_THAT(fault_of("[[gpu]]\n"), HasSubstr("needs a model"));
  EXPECT_THAT(fault_of("[[gpu]]\nmodel = \"a40\"\ncount = 65\n"), HasSubstr("1 to 64"));
  EXPECT_THAT(
      fault_of("[[gpu]]\nmodel = \"a40\"\ncount = 40\n[[gpu]]\nmodel = \"a40\"\ncount = 40\n"),
      HasSubstr("more than 64"));
  EXPECT_THAT(fault_of("[[gpu]]\nmodel = \"a40\"\nleakage = 0.1\nkelvin_per_watt = 1\n"),
              HasSubstr("heat itself without end"));
  EXPECT_THAT(fault_of("state_file = \"x\"\n[[gpu]]\nmodel = \"a40\"\n"),
              HasSubstr("absolute path"));
}

}  // namespace
}  // namespace harpe::device
