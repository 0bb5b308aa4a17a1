#include "harpe/command/cli/job_dashboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "harpe/command/command/text_layout.h"

namespace harpe::command {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string status(int iteration, double joules, double seconds = 0.412) {
  return R"({"id": "demo", "name": "demo", "phase": "straggling", "data": 2, "stages": 4, "tensor": 1,
             "schedule": "1f1b", "micro_batches": 4, "ranks": 8, "ranks_registered": 8,
             "objective": {"slowdown": 0}, "profiling": null, "synthetic": true,
             "pipelines": [{"pipeline": 0, "factor": 1, "time_s": 0.36}, {"pipeline": 1, "factor": 1.2, "time_s": 0.41}],
             "stage_clocks": [{"stage": 0, "lowest_mhz": 1095, "highest_mhz": 1200},
                              {"stage": 1, "lowest_mhz": 1410, "highest_mhz": 1410}],
             "wait_until_s": 0.41,
             "stragglers": [{"pipeline": 1, "factor": 1.2, "until": null, "detected": true, "seen": null}],
             "plans": [{"plan": 12, "pipelines": 2, "time_s": 0.41, "energy_j": 812, "slowdown": 0.012,
                        "slowdown_to_all_max": 0.01, "gap": 0.0003, "lower_bound_j": 811}],
             "predicted_time_s": 0.41, "measured_all_max_time_s": 0.4, "measured_all_max_energy_j": 900,
             "saved_j": 4120, "saved_error_j": 110, "newest_iteration": )" +
         std::to_string(iteration) + R"(, "energy_j": )" + std::to_string(joules) +
         R"(, "iteration_time_s": )" + std::to_string(seconds) + "}";
}

DashboardLook look_at(const std::string& given) {
  std::string events;
  for (int i = 1; i <= 30; ++i)
    events += std::string(i == 1 ? "" : ",") + R"({"sequence": )" + std::to_string(i) +
              R"(, "at": 1790000000, "kind": "info", "text": "event )" + std::to_string(i) + ".\"}";
  return {.status = given,
          .log = R"({"events": [)" + events + "]}",
          .trouble = {},
          .time_of_day = "14:03:59"};
}

/// Returns ten iterations of 0.4 s with 720 J each.
JobTrend ten_iterations() {
  JobTrend trend;
  for (int i = 0; i <= 10; ++i)
    trend.add(status(i, 720.0 * i, i < 5 ? 0.4 : 0.5), Instant{} + Seconds{0.4 * i});
  return trend;
}

TEST(JobDashboard, SaysWhatOneWantsToKnowFirst) {
  const std::string view =
      job_dashboard(look_at(status(10, 7200)), ten_iterations(), 100, 0, false);
  for (const char* part :
       {"harpe job watch  demo  14:03:59", "straggling", "412.000 ms measured",
        "▁▁▁▁▁██████ 400.000 ms",
        "1800 W over the last iterations, -60.0 % against all-max (4500 W at all-max)",
        "SAVED  36.4 ± 1.0 %   4120 ± 110 J against all-max  [|", "pipeline 1, 1.2 times slower",
        "12 on 2 pipelines", "event 30."}) {
    EXPECT_THAT(view, HasSubstr(part));
  }
  EXPECT_LT(view.find("SAVED"), view.find("phase  ")) << "the figure is what users look for";
  EXPECT_LT(view.find("iteration  "), view.find("plan  "));
}

TEST(JobDashboard, HasABarForEachPipelineAndTheClocksOfEachStage) {
  const std::string view = job_dashboard(look_at(status(10, 7200, 0.41)), {}, 80, 40, false);
  for (const char* part :
       {"pipelines   planned iteration times, relative to 410.000 ms\n              0    [|",
        "   ]  360.000 ms\n", "||]  410.000 ms  straggler, 1.2x\n",
        "stage MHz   0:1095-1200, 1:1410\n", "power       not known yet (4500 W at all-max)\n"}) {
    EXPECT_THAT(view, HasSubstr(part));
  }
  EXPECT_THAT(view, Not(HasSubstr("and 0 more")));
  std::string many = status(10, 7200, 0.41);
  many.replace(many.find(R"("data": 2)"), 9, R"("data": 64)");
  EXPECT_THAT(job_dashboard(look_at(many), {}, 80, 30, false), HasSubstr("and 62 more"));
}

TEST(JobDashboard, ClaimsNoSavingsThatAreNotDistinguishable) {
  std::string small = status(10, 7200, 0.41);
  small.replace(small.find("4120,"), 5, "41,");
  const std::string view = job_dashboard(look_at(small), {}, 100, 0, false);
  EXPECT_THAT(view, HasSubstr("SAVED 41 ± 110 J, not distinguishable from zero"));
  EXPECT_THAT(view, Not(HasSubstr("SAVED  0.")));
}

TEST(JobDashboard, ClaimsNothingOfPowerWhileProfiling) {
  std::string profiled = status(10, 7200);
  const std::string none = R"("profiling": null)";
  profiled.replace(profiled.find(none), none.size(),
                   R"("profiling": {"iterations_left": 5, "time_left_s": 2, "slowdown": 0.1})");
  const std::string view = job_dashboard(look_at(profiled), ten_iterations(), 100, 0, false);
  EXPECT_THAT(view, HasSubstr("1800 W over the last iterations (4500 W at all-max)"));
}

TEST(JobDashboard, FitsAnyTerminal) {
  for (const int columns : {24, 40, 60, 80, 132, 250}) {
    for (const int lines : {0, 5, 12, 24, 60}) {
      const std::string view =
          job_dashboard(look_at(status(10, 7200)), ten_iterations(), columns, lines, false);
      std::istringstream read(view);
      int count = 0;
      for (std::string line; std::getline(read, line); ++count) {
        EXPECT_LE(display_width(line), static_cast<std::size_t>(columns)) << line;
      }
      EXPECT_TRUE(lines == 0 || count <= lines) << columns << " x " << lines << "\n" << view;
      EXPECT_THAT(view, HasSubstr("straggling"));
      if (lines == 0 || lines >= 12) {
        EXPECT_THAT(view, HasSubstr("event 30"));
      }
    }
  }
}

TEST(JobDashboard, KeepsWhatItHasSeenWhileTheServerIsAway) {
  DashboardLook look = look_at(status(10, 7200));
  look.trouble = "the server does not respond; trying again";
  const std::string view = job_dashboard(look, {}, 80, 24, true);
  EXPECT_THAT(view, HasSubstr("does not respond"));
  EXPECT_THAT(view, HasSubstr("straggling"));
  EXPECT_THAT(job_dashboard({}, {}, 80, 24, false), HasSubstr("harpe job watch"));
}

TEST(JobTrend, ClaimsNoPowerOfTooLittleOrOfLongAgo) {
  EXPECT_FALSE(JobTrend().power());
  JobTrend trend = ten_iterations();
  ASSERT_TRUE(trend.power());
  EXPECT_NEAR(trend.power()->value, 1800, 1);
  // Reports of the same iteration add nothing. After a minute of them, there is no power figure.
  trend.add(status(10, 7200), Instant{} + Seconds{30});
  EXPECT_TRUE(trend.power());
  trend.add(status(10, 7200), Instant{} + Seconds{100});
  EXPECT_FALSE(trend.power());
  // A restart of training begins a new count.
  trend.add(status(1, 7300), Instant{} + Seconds{101});
  EXPECT_FALSE(trend.power());
}

TEST(JobTrend, CountsPowerFromWhereOtherClocksAreFollowed) {
  JobTrend trend;
  const auto add = [&](int iteration, double joules, int version) {
    std::string seen = status(iteration, joules);
    seen.insert(seen.size() - 1, R"(, "version": )" + std::to_string(version));
    trend.add(seen, Instant{} + Seconds{1.0 * iteration});
  };
  for (int i = 0; i <= 40; ++i) add(i, 900.0 * i, 1);
  EXPECT_NEAR(trend.power()->value, 900, 1);
  // Clocks that were assigned at iteration 40 are set from 44 on.
  for (int i = 41; i <= 44; ++i) add(i, 900.0 * i, 2);
  EXPECT_FALSE(trend.power());
  for (int i = 45; i <= 52; ++i) add(i, 900.0 * 44 + 600.0 * (i - 44), 2);
  EXPECT_NEAR(trend.power()->value, 600, 1);
  EXPECT_EQ(trend.iteration_times().size(), 53U);
}

TEST(Sparkline, RisesFromTheLeastToTheGreatest) {
  EXPECT_EQ(sparkline({}, 10), "");
  EXPECT_EQ(sparkline({1, 1.001, 1}, 10), "▁▁▁");
  EXPECT_EQ(sparkline({5, 1, 1.5, 2}, 3), "▁▅█");
}

}  // namespace
}  // namespace harpe::command
