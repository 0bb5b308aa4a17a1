// Zeus's log of a profiling run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harpe/lab/replay/limit_replay.h"

namespace harpe::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kRunHeading = "start_time,window_name,elapsed_time,gpu0_energy,gpu1_energy\n";

std::string recorded_run_error(const std::string& text) {
  const auto run = parse_recorded_run(text, "run.csv");
  return run.ok() ? "" : run.error().text();
}

TEST(RecordedRun, SumsTheEnergyOfItsGpusAndSkipsOtherWindows) {
  const auto run = parse_recorded_run(std::string(kRunHeading) +
                                          "1,epoch,100,9,9\n"
                                          "2,\"__GlobalPowerLimitOptimizer_300\",10,1000,1200.5\n"
                                          "3,mine_250W,11,900,1000\n",
                                      "run.csv");
  ASSERT_TRUE(run.ok()) << run.error().text();
  EXPECT_EQ(run->gpus, 2);
  EXPECT_THAT(run->knob.settings(), ElementsAre(300, 250));
  EXPECT_EQ(run->measurements[0], (zeus::Measurement{300, {10}, {2200.5}}));
}

TEST(RecordedRun, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(recorded_run_error(""), HasSubstr("run.csv"));
  EXPECT_THAT(recorded_run_error("a,b\n1,2\n"), HasSubstr("run.csv:1:1: expected the columns"));
  EXPECT_THAT(recorded_run_error(kRunHeading), HasSubstr("no window"));
  EXPECT_THAT(recorded_run_error(std::string(kRunHeading) + "1,x_300,nan,1,1\n"),
              HasSubstr("run.csv:2:9: expected a number"));
  EXPECT_THAT(recorded_run_error(std::string(kRunHeading) + "1,x_300,1,-1,1\n"), HasSubstr("'-1'"));
  EXPECT_THAT(recorded_run_error(std::string(kRunHeading) + "1,x_200,1,1,1\n1,x_300,1,1,1\n"),
              HasSubstr("descend"));
  EXPECT_THAT(recorded_run_error(std::string(kRunHeading) + "1,x_200,1,1,1\n1,x_200,1,1,1\n"),
              HasSubstr("descend"));
  EXPECT_THAT(recorded_run_error(std::string(kRunHeading) + "1,x_300,1,601,1\n"),
              HasSubstr("run.csv:2:11: 601 J in 1 s is more than 600 W"));
  EXPECT_THAT(recorded_run_error(std::string(kRunHeading) + "1,x_300,1\n"),
              HasSubstr("expected 5 cells, found 3"));
}

}  // namespace
}  // namespace harpe::lab
