// Traces of stragglers and power caps, and stragglers that come and go.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harpe/lab/emulation/cluster_emulation.h"
#include "harpe/lab/emulation/stragglers.h"

namespace harpe::lab {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kHead = "pipeline,begin_iteration,end_iteration,slowdown\n";

std::string error_of(const std::string& rows) {
  const auto trace = parse_straggler_trace(kHead + rows, "t.csv");
  return trace.ok() ? "" : trace.error().text();
}

TEST(StragglerTrace, ReadsRowsInAnyOrder) {
  const auto trace = parse_straggler_trace(std::string(kHead) + "1,10,20,1.5\n0,5,6,1.2\n", "t");
  ASSERT_TRUE(trace.ok()) << trace.error().text();
  EXPECT_FALSE(trace->in_seconds);
  EXPECT_EQ(trace->states[0], (StragglerTrace::State{0, 5, 6, 1.2, 3}));
  EXPECT_EQ(trace->states[1], (StragglerTrace::State{1, 10, 20, 1.5, 2}));
  const auto timed = parse_straggler_trace("pipeline,begin_s,end_s,slowdown\n2,0.5,1.5,2\n", "t");
  ASSERT_TRUE(timed.ok()) << timed.error().text();
  EXPECT_TRUE(timed->in_seconds);
  EXPECT_EQ(timed->states[0].end, 1.5);
}

TEST(StragglerTrace, NamesTheLineOfEverythingThatIsWrong) {
  EXPECT_THAT(error_of("0,0,10,1.2\n0,12,20,1\n"), AllOf(HasSubstr("t.csv:3"), HasSubstr("a gap")));
  EXPECT_THAT(error_of("0,0,10,1.2\n0,9,20,1\n"), AllOf(HasSubstr("t.csv:3"), HasSubstr("before")));
  EXPECT_THAT(error_of("0,0,10,0.9\n"), HasSubstr("t.csv:2"));
  EXPECT_THAT(error_of("0,0,10,nan\n"), HasSubstr("t.csv:2"));
  EXPECT_THAT(error_of("0,-1,10,1.2\n"), HasSubstr("t.csv:2"));
  EXPECT_THAT(error_of("-1,0,10,1.2\n"), HasSubstr("t.csv:2"));
  EXPECT_THAT(error_of("0,10,10,1.2\n"), HasSubstr("t.csv:2"));
  EXPECT_THAT(error_of("0,0,1.5,1.2\n"), HasSubstr("whole number"));
  EXPECT_THAT(error_of("0,0,10\n"), HasSubstr("t.csv:2"));
  EXPECT_THAT(parse_straggler_trace("pipeline,begin,end\n", "t").error().text(),
              HasSubstr("begin_iteration"));
  EXPECT_FALSE(parse_straggler_trace("", "t").ok());
  EXPECT_THAT(error_of(""), HasSubstr("no row with a straggler"));
  EXPECT_THAT(parse_straggler_trace("pipeline,begin_s,end_s,begin_iteration,end_iteration,slowdown"
                                    "\n0,0,1,0,1,1.2\n",
                                    "t")
                  .error()
                  .text(),
              HasSubstr("expected one of them"));
  EXPECT_THAT(
      parse_straggler_trace("pipeline,begin_s,end_s,slowdown,slowdown\n0,0,1,1.2,1.3\n", "t")
          .error()
          .text(),
      HasSubstr("the column slowdown is given twice"));
}

TEST(StragglerTrace, MustFitTheCluster) {
  StragglerTerms terms{.trace = *parse_straggler_trace(std::string(kHead) + "4,0,10,1.2\n", "t")};
  EXPECT_TRUE(check_stragglers(terms, 5, "t").ok());
  EXPECT_THAT(check_stragglers(terms, 4, "t.csv").error().text(), HasSubstr("t.csv:2"));
}

TEST(PowerCapTrace, HoldsEachCapUntilTheNext) {
  const auto trace = parse_power_cap_trace("time_s,watts\n10,5000\n20,4000\n", "c");
  ASSERT_TRUE(trace.ok()) << trace.error().text();
  EXPECT_FALSE(trace->at(9_s));
  EXPECT_EQ(trace->at(10_s), 5000_W);
  EXPECT_EQ(trace->at(19.9_s), 5000_W);
  EXPECT_EQ(trace->at(1e9_s), 4000_W);
  for (const char* rows : {"0,0\n", "0,nan\n", "5,1\n5,2\n", "-1,100\n", ""}) {
    EXPECT_FALSE(parse_power_cap_trace(std::string("time_s,watts\n") + rows, "c").ok()) << rows;
  }
}

TEST(Stragglers, StayOrComeAndGo) {
  Stragglers stays(2, {.recurring = {{.slowdown = 1.3, .pipeline = 1}}}, 1);
  EXPECT_TRUE(stays.advance(0, 0_s));
  EXPECT_THAT(stays.slowdowns(), ElementsAre(1, 1.3));
  EXPECT_FALSE(stays.advance(1, 1e9_s));

  Stragglers every_third(
      2, {.recurring = {{.slowdown = 1.2, .pipeline = 0, .between = 2_s, .lasts = 1_s}}}, 1);
  std::vector<double> seen;
  for (int day = 0; day < 7; ++day) {
    every_third.advance(day, Seconds{static_cast<double>(day)});
    seen.push_back(every_third.slowdowns()[0]);
  }
  EXPECT_THAT(seen, ElementsAre(1, 1, 1.2, 1, 1, 1.2, 1));
}

TEST(Stragglers, RandomOnesHaveTheirShareOfTheTimeAndFollowTheSeed) {
  const StragglerTerms terms{
      .recurring = {{.slowdown = 1.2, .between = 30_s, .lasts = 10_s, .is_random = true}}};
  const auto slow_steps = [&](std::uint64_t seed) {
    Stragglers stragglers(4, terms, seed);
    std::vector<int> steps;
    for (int i = 0; i < 40'000; ++i) {
      stragglers.advance(i, Seconds{static_cast<double>(i)});
      for (int p = 0; p < 4; ++p)
        if (stragglers.slowdowns()[p] > 1) steps.push_back(4 * i + p);
    }
    return steps;
  };
  const auto steps = slow_steps(1);
  EXPECT_NEAR(static_cast<double>(steps.size()) / 40'000, 0.25, 0.02);
  EXPECT_EQ(steps, slow_steps(1));
  EXPECT_NE(steps, slow_steps(2));
}

TEST(Stragglers, FollowATraceByIterationOrTime) {
  const auto trace =
      *parse_straggler_trace(std::string(kHead) + "0,1,3,1.2\n0,3,4,1.5\n1,2,3,2\n", "t");
  Stragglers stragglers(2, {.trace = trace}, 1);
  std::vector<double> first, second;
  for (int i = 0; i < 5; ++i) {
    stragglers.advance(i, Seconds{100.0 * i});
    first.push_back(stragglers.slowdowns()[0]);
    second.push_back(stragglers.slowdowns()[1]);
  }
  EXPECT_THAT(first, ElementsAre(1, 1.2, 1.2, 1.5, 1));
  EXPECT_THAT(second, ElementsAre(1, 1, 2, 1, 1));
}

}  // namespace
}  // namespace harpe::lab
