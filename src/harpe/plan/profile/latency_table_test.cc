#include "harpe/plan/profile/latency_table.h"

#include <gmock/gmock.h>

#include <string>

namespace harpe::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refused(std::string_view text) {
  const auto latency = parse_latency_table(text, "late.csv");
  return latency.ok() ? "" : latency.error().text();
}

TEST(LatencyTable, LiesBesideItsProfile) {
  EXPECT_EQ(latency_table_of("runs/gpt3-175b.a100.csv"), "runs/gpt3-175b.a100.latency.csv");
  EXPECT_EQ(latency_table_of("profile"), "profile.latency.csv");
  EXPECT_EQ(latency_table_of("p.tsv"), "p.latency.csv");
}

TEST(LatencyTable, HasTheLongerOfItsNeighboursBetweenClocks) {
  const auto latency = parse_latency_table(
      "# measured\nlatency,Frequency\n0.005,1410\n0.2,900\n0.01,1200.0\n", "late.csv");
  ASSERT_TRUE(latency.ok()) << latency.error().text();
  EXPECT_EQ(latency->to(1410_MHz), 0.005_s);
  EXPECT_EQ(latency->to(1200_MHz), 0.01_s);
  EXPECT_EQ(latency->to(1300_MHz), 0.01_s);
  EXPECT_EQ(latency->to(1000_MHz), 0.2_s);
  EXPECT_EQ(latency->to(210_MHz), 0.2_s) << "below the lowest: as the lowest";
  EXPECT_EQ(latency->to(1980_MHz), 0.005_s) << "above the highest: as the highest";
  EXPECT_EQ(latency->longest(), 0.2_s);
  EXPECT_EQ(text_of(*latency), "0.005 to 0.2 s");
}

TEST(LatencyTable, IsWrittenAsItIsRead) {
  const LatencyByClock latency({{1410_MHz, 0.005_s}, {900_MHz, 0.1_s / 3}});
  const std::string text = latency_table_csv(latency);
  EXPECT_THAT(text, HasSubstr("\n1410,0.005\n"));
  EXPECT_EQ(parse_latency_table(text, "late.csv").value(), latency);
}

TEST(LatencyTable, MaySayTheLeastLatencies) {
  const auto latency = parse_latency_table(
      "frequency,least_latency,latency\n1410,0.004,0.005\n900,,0.2\n1200,0.01,0.01\n", "late.csv");
  ASSERT_TRUE(latency.ok()) << latency.error().text();
  EXPECT_EQ(latency->to(1410_MHz), 0.005_s);
  EXPECT_EQ(latency->least_to(1410_MHz), 0.004_s);
  EXPECT_EQ(latency->least_to(1300_MHz), 0.004_s) << "the shorter of its neighbours'";
  EXPECT_EQ(latency->least_to(900_MHz), 0.005_s) << "the shortest of all where none is known";
  EXPECT_EQ(latency->least_to(1000_MHz), 0.005_s);
  EXPECT_EQ(latency->least_to(1980_MHz), 0.004_s);
  EXPECT_EQ(latency_table_csv(*latency),
            "frequency,latency,least_latency\n900,0.2,\n1200,0.01,0.01\n1410,0.005,0.004\n");
  EXPECT_EQ(parse_latency_table(latency_table_csv(*latency), "late.csv").value(), *latency);
  EXPECT_EQ(latency_table_csv(latency->at_most()),
            "frequency,latency\n900,0.2\n1200,0.01\n1410,0.005\n");
}

TEST(LatencyTable, OneTimeHoldsForAllClocks) {
  const LatencyByClock latency = 0.01_s;
  EXPECT_EQ(latency.to(210_MHz), 0.01_s);
  EXPECT_EQ(latency.to(1410_MHz), 0.01_s);
  EXPECT_EQ(text_of(latency), "0.01 s");
}

TEST(LatencyTable, RefusesWhatIsNoneWithLineAndColumn) {
  EXPECT_THAT(refused(""), HasSubstr("expected a header line"));
  EXPECT_THAT(refused("frequency,latency\n"), HasSubstr("late.csv:1:1: expected a row"));
  EXPECT_THAT(refused("frequency,delay\n1,2\n"),
              AllOf(HasSubstr("late.csv:1:11: unknown column 'delay'"),
                    HasSubstr("late.csv:1:1: column latency (s) is missing")));
  EXPECT_THAT(refused("frequency,latency,latency\n"),
              HasSubstr("late.csv:1:19: column latency appears twice"));
  EXPECT_THAT(refused("frequency,latency\n1410.5,0.1\n900,-1\nx,10ms\n900\n"),
              AllOf(HasSubstr("late.csv:2:1: frequency: expected whole MHz"),
                    HasSubstr("late.csv:3:5: latency: expected seconds from 0 to 3600, found '-1'"),
                    HasSubstr("late.csv:4:1: frequency"), HasSubstr("late.csv:4:3: latency"),
                    HasSubstr("late.csv:5: expected 2 cells, found 1")));
  EXPECT_THAT(
      refused("frequency,latency,least_latency\n900,0.1,0.2\n1000,0.1,0\n1200,0.1,x\n1,1\n"),
      AllOf(HasSubstr("late.csv:2:9: least_latency: expected more than 0 s, and at most "
                      "the latency, 0.1 s, found '0.2'"),
            HasSubstr("late.csv:3:10: least_latency"), HasSubstr("late.csv:4:10: least_latency"),
            HasSubstr("late.csv:5: expected 3 cells, found 2")));
  EXPECT_THAT(refused("frequency,latency\n900,0.1\n1200,0.1\n900,0.2\n"),
              HasSubstr("late.csv:4:1: frequency: 900 MHz is already in line 2"));
}

}  // namespace
}  // namespace harpe::plan
