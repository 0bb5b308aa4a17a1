#include "harpe/lab/replay/traces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harpe/base/source_tree_testing.h"

namespace harpe::lab {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTraceHeading =
    "dataset,network,batch_size,optimizer,learning_rate,run,target_metric,target_epoch\n";

TEST(Traces, ReadsRunsThatReachedTheirTargetAndThatDidNot) {
  const auto rows = parse_train_rows(std::string(kTraceHeading) +
                                         "squad,bert,32,adamw,1e-1,1,84.0,4\n"
                                         "squad,bert,32,adamw,1e-1,2,84.0,5.0\n"
                                         "squad,bert,64,adamw,1e-1,1,84.0,nan\n"
                                         "squad,bert,64,adamw,1e-1,2,84.0,\n",
                                     "train.csv");
  ASSERT_TRUE(rows.ok()) << rows.error().text();
  ASSERT_EQ(rows->size(), 4U);
  EXPECT_EQ((*rows)[0].key, (TraceKey{"squad", "bert", "adamw", 32}));
  EXPECT_EQ((*rows)[1].target_epoch, 5);
  EXPECT_EQ((*rows)[2].target_epoch, std::nullopt);
  EXPECT_EQ((*rows)[3].target_epoch, std::nullopt);
}

TEST(Traces, ReadsPowerInAnyOrderOfColumns) {
  const auto rows = parse_power_rows(
      "average_power,time_per_epoch,power_limit,optimizer,batch_size,network,dataset\n"
      "100.5,20,150,adamw,32,bert,squad\n",
      "power.csv");
  ASSERT_TRUE(rows.ok()) << rows.error().text();
  EXPECT_EQ((*rows)[0].key, (TraceKey{"squad", "bert", "adamw", 32}));
  EXPECT_EQ((*rows)[0].power_limit, 150);
  EXPECT_EQ((*rows)[0].epoch_time, Seconds{20});
  EXPECT_EQ((*rows)[0].average_power, Watts{100.5});
}

TEST(Traces, NamesEveryRowThatIsWrong) {
  const auto rows = parse_train_rows(std::string(kTraceHeading) +
                                         "squad,bert,0,adamw,1e-1,1,84.0,4\n"
                                         "squad,bert,32,adamw,1e-1,1,best,4.5\n"
                                         "squad,bert\n",
                                     "train.csv");
  ASSERT_FALSE(rows.ok());
  EXPECT_THAT(rows.error().text(), HasSubstr("train.csv:2:12: expected a whole number from 1"));
  EXPECT_THAT(rows.error().text(), HasSubstr("train.csv:3:28: expected a number"));
  EXPECT_THAT(rows.error().text(), HasSubstr("train.csv:3:33: expected a whole number"));
  EXPECT_THAT(rows.error().text(), HasSubstr("train.csv:4: expected 8 cells, found 2"));
}

TEST(Traces, NamesColumnsThatAreMissing) {
  const auto rows = parse_power_rows("dataset,network,batch_size\n", "power.csv");
  ASSERT_FALSE(rows.ok());
  EXPECT_THAT(rows.error().text(), HasSubstr("power.csv:1: there is no column power_limit"));
  EXPECT_FALSE(parse_power_rows("", "power.csv").ok());
}

TEST(Traces, RefusesTimesAndPowersOfNothing) {
  const std::string heading =
      "dataset,network,optimizer,batch_size,power_limit,time_per_epoch,average_power\n";
  for (const char* row : {"a,b,c,1,100,0,5\n", "a,b,c,1,100,5,-1\n", "a,b,c,1,0,5,5\n"}) {
    EXPECT_FALSE(parse_power_rows(heading + row, "power.csv").ok()) << row;
  }
}

}  // namespace
}  // namespace harpe::lab
