// The files of Perseus's artifact: their values, and errors with line numbers.

#include "harpe/lab/reproduce/artifact.h"

#include <gmock/gmock.h>

#include "harpe/base/file.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::lab {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Artifact : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    const auto file = folder_.path() / name;
    ASSERT_TRUE(ensure_directory(file.parent_path()).ok());
    ASSERT_TRUE(write_file(file, text).ok());
  }
  std::string error() { return read_sosp24(folder_.path()).error().text(); }

  TestDirectory folder_;
};

std::string profile_text() {
  return profile_csv(synthesize({.stages = 8}).value());
}

TEST_F(Artifact, HasTheFrontiersAndEnvPipeOfItsProfiles) {
  write("emulation/bloom-176b_a40.csv", profile_text());
  write("emulation/published_frontiers/a40/bloom_bf16_mb12.csv", "time,energy\n2,30\n1,40\n");
  write("emulation/published_frontiers/a40/gpt3-175b_bf16_mb12.csv", "time,energy\n5,30\n");
  write("emulation/published_envpipe.csv",
        "model,precision,device,num_microbatches,num_pipelines,iteration_time,energy\n"
        "bloom,bf16,a40,12,128,20,3200\nbloom,bf16,a100_sxm,12,128,30,3200\n");
  const Sosp24Artifact found = read_sosp24(folder_.path()).value();
  ASSERT_EQ(found.emulated.size(), 1U);
  const EmulatedWorkload& workload = found.emulated.front();
  EXPECT_EQ(workload.workload, "bloom-176b");
  EXPECT_EQ(workload.gpu, "a40");
  const EmulatedWorkload::Published& published = workload.published.at(12);
  ASSERT_EQ(published.frontier.size(), 2U);
  EXPECT_EQ(published.frontier.back().energy, 40.0_J);
  // The file has all layers and 64 GPUs; the result has a tenth of the layers and one GPU a stage.
  EXPECT_EQ(published.envpipe->time, 2.0_s);
  EXPECT_EQ(published.envpipe->energy, 40.0_J);
}

TEST_F(Artifact, NamesTheLineOfEveryFault) {
  write("emulation/bloom-176b_a40.csv", profile_text());
  write("emulation/published_frontiers/a40/bloom_bf16_mb12.csv",
        "time,energy\n2,30\n-1,40\nnan,40\n1\n");
  write("emulation/published_envpipe.csv", "model,device\nbloom,a40\n");
  write("measured/constants.csv",
        "folder,workload,stages,microbatches,gpus_per_stage,p_blocking_w,fixed_extra_s,"
        "load_s_per_stage\na100,../x,4,8,1,80,0.1,0.1 0.1\n");
  EXPECT_THAT(error(),
              AllOf(HasSubstr("mb12.csv:3:1: expected a number"), HasSubstr("mb12.csv:4:1"),
                    HasSubstr("mb12.csv:5: expected 2 cells, found 1"),
                    HasSubstr("there is no column num_microbatches"),
                    HasSubstr("expected one time for each of 4 stages"),
                    HasSubstr("expected the name of a workload")));
}

TEST_F(Artifact, NamesProfilesThatItSkips) {
  write("emulation/bloom-176b_a40.csv", profile_text());
  write("emulation/bloom.csv", profile_text());
  const Sosp24Artifact found = read_sosp24(folder_.path()).value();
  EXPECT_EQ(found.emulated.size(), 1U);
  EXPECT_EQ(found.skipped.size(), 1U);
}

TEST_F(Artifact, IsNoEmptyFolder) {
  EXPECT_THAT(error(), HasSubstr("has neither profiles"));
  write("emulation/bloom-176b_a40.csv", "");
  EXPECT_THAT(error(), HasSubstr("bloom-176b_a40.csv"));
}

TEST_F(Artifact, TakesMeasuredPlansOfItsWorkloads) {
  write("measured/constants.csv",
        "folder,workload,stages,microbatches,gpus_per_stage,p_blocking_w,fixed_extra_s,"
        "load_s_per_stage\na40,bloom,8,16,1,70.38,0.1,\n");
  write("measured/bloom.csv", profile_text());
  write("measured/measured_plans.csv",
        "gpu,workload,plan,measured_time_s,measured_energy_j,kind\n"
        "a40,bloom,0,2,100,all_max_warmup\na40,bloom,1,3,80,perseus\na40,bloom,2,2,90,perseus\n"
        "a40,bloom,baseline,2,101,zeus_global_300W\na40,bert,1,1,1,perseus\n");
  const Sosp24Artifact found = read_sosp24(folder_.path()).value();
  ASSERT_EQ(found.measured.size(), 1U);
  EXPECT_EQ(found.measured[0].all_max->energy, 101.0_J);
  EXPECT_EQ(found.measured[0].perseus.size(), 2U);
  EXPECT_TRUE(found.measured[0].load.empty());
}

}  // namespace
}  // namespace harpe::lab
