#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "harpe/lab/replay/concurrent_recurrences.h"
#include "harpe/lab/replay/traced_job.h"

namespace harpe::lab {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHeading = "group,start_time,end_time,dataset,runtime_ratio\n";

TEST(JobGroups, AreReadByTheirFirstRowsAndStarts) {
  const auto groups = parse_job_groups(
      "# a comment\ndataset,start_time,end_time,runtime_ratio,group,extra\n"
      "squad,5,9,1.5,b,x\nimagenet,1,2,1,a,x\nsquad,3,4.5,0.5,b,x\nsquad,5,6,2,b,x\n",
      "groups.csv");
  ASSERT_TRUE(groups.ok()) << groups.error().text();
  const JobGroup b{.name = "b",
                   .dataset = "squad",
                   .jobs = {{Seconds{3}, Seconds{4.5}, 0.5},
                            {Seconds{5}, Seconds{9}, 1.5},
                            {Seconds{5}, Seconds{6}, 2}}};
  const JobGroup a{.name = "a", .dataset = "imagenet", .jobs = {{Seconds{1}, Seconds{2}, 1}}};
  EXPECT_EQ(*groups, (std::vector{b, a}));
}

TEST(JobGroups, NameAllThatIsWrong) {
  const auto groups = parse_job_groups(std::string(kHeading) +
                                           "a,5,4,squad,1\na,5,6,imagenet,1\n,1,2,squad,1\n"
                                           "b,1,2,squad,0\nb,-1,2,squad,1\nb,1\n",
                                       "groups.csv");
  ASSERT_FALSE(groups.ok());
  const std::string text = groups.error().text();
  EXPECT_THAT(text, HasSubstr("groups.csv:2:5: expected an end that is not before the start"));
  EXPECT_THAT(text, HasSubstr("groups.csv:3:7: expected squad, as in the group's first row"));
  EXPECT_THAT(text, HasSubstr("groups.csv:4:1: expected the name of a group"));
  EXPECT_THAT(text, HasSubstr("groups.csv:5:13: expected a number"));
  EXPECT_THAT(text, HasSubstr("groups.csv:6:3: expected a number from 0"));
  EXPECT_THAT(text, HasSubstr("groups.csv:7: expected 5 cells, found 2"));
  EXPECT_FALSE(parse_job_groups("", "groups.csv").ok());
  EXPECT_FALSE(parse_job_groups("group,dataset\n", "groups.csv").ok());
}

TEST(JobGroups, AreTheSameOnceWrittenAndRead) {
  const std::vector<JobGroup> odd{
      {.name = "a, \"b\" #", .dataset = "squad", .jobs = {{Seconds{0.1}, Seconds{2.0 / 3}, 1e-3}}}};
  for (const auto& groups : {odd, synthetic_groups(3, {})}) {
    const auto again = parse_job_groups(job_groups_csv(groups, "synthetic"), "groups.csv");
    ASSERT_TRUE(again.ok()) << again.error().text();
    EXPECT_EQ(*again, groups);
  }
}

TEST(SyntheticGroups, HaveTheShapeThatWasAskedFor) {
  const SyntheticGroups shape{.groups_per_dataset = 3, .jobs = 400, .in_flight = 2};
  const std::vector<JobGroup> groups = synthetic_groups(1, shape);
  ASSERT_EQ(groups.size(), 3 * traced_datasets().size());
  std::set<std::string> names;
  double ratio = 0, overlap = 0;
  for (const JobGroup& group : groups) {
    names.insert(group.name);
    EXPECT_THAT(group.name, HasSubstr("synthetic"));
    ASSERT_EQ(group.jobs.size(), 400U);
    double length = 0;
    for (const GroupedJob& job : group.jobs) {
      ratio += job.runtime_ratio / (400.0 * static_cast<double>(groups.size()));
      length += (job.end - job.start).value;
    }
    overlap += length / group.jobs.back().start.value / static_cast<double>(groups.size());
  }
  EXPECT_EQ(names.size(), groups.size());
  EXPECT_NEAR(ratio, 1, 0.05);
  EXPECT_NEAR(overlap, 2, 0.15);
  EXPECT_EQ(synthetic_groups(1, shape), groups);
  EXPECT_NE(synthetic_groups(2, shape), groups);
}

}  // namespace
}  // namespace harpe::lab
