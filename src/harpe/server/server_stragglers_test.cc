// Stragglers that nothing declares, as ranks report them to a server: its workers make the plans.
// The ranks and their GPUs are simulated here, by the profile that the job has.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "harpe/profile/profile.h"
#include "harpe/schedule/replay.h"
#include "harpe/schedule/schedule.h"
#include "harpe/server/server_testing.h"

namespace harpe {
namespace {

using nlohmann::json;

constexpr int kPipelines = 2, kStages = 2;

/// All ranks of `test_specification`, in step.
class Ranks {
 public:
  explicit Ranks(const TestServer& server) : server_(server) {}

  void iterate() {
    std::array<std::vector<std::vector<Seconds>>, kPipelines> durations;
    std::vector<json> reports;
    for (int pipeline = 0; pipeline < kPipelines; ++pipeline) {
      for (int stage = 0; stage < kStages; ++stage) {
        reports.push_back(work(pipeline, stage, durations[pipeline].emplace_back()));
      }
    }
    Seconds time;
    for (const auto& of_pipeline : durations) {
      time = std::max(time, replay(schedule_, {}, of_pipeline)->makespan);
    }
    for (json& report : reports) {
      report["time_s"] = time.value;
      const TestAnswer taken = server_.ask("POST", "/v1/jobs/j/reports", report.dump());
      ASSERT_EQ(taken.status, 200) << taken.body;
    }
    ++iteration_;
  }

  /// Of the first stage of the second pipeline.
  double slowness = 1;

 private:
  /// What a stage does in this iteration, by the newest assignments that hold.
  json work(int pipeline, int stage, std::vector<Seconds>& durations) const {
    const std::string query =
        "data=" + std::to_string(pipeline) + "&stage=" + std::to_string(stage);
    const json assignments =
        server_.ask("GET", "/v1/jobs/j/assignments?" + query).json()["assignments"];
    json held;
    for (const json& one : assignments) {
      if (one["from_iteration"] <= iteration_) held = one;
    }
    const auto& list = schedule_.lists[stage];
    json totals = {{{"name", "forward"}, {"count", 0}, {"time_s", 0.0}, {"energy_j", 0.0}},
                   {{"name", "backward"}, {"count", 0}, {"time_s", 0.0}, {"energy_j", 0.0}}};
    double energy = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto points = profile_.points(stage, 0, list[i].kind);
      const int clock = held.is_null() ? 0 : clock_of(held["clocks_mhz"], i);
      const auto found = std::ranges::find_if(
          points, [&](const OperatingPoint& point) { return point.clock.value == clock; });
      const OperatingPoint& at = found == points.end() ? points.back() : *found;
      durations.push_back(at.time * (pipeline == 1 && stage == 0 ? slowness : 1));
      json& total = totals[list[i].kind == InstructionKind::kForward ? 0 : 1];
      total["count"] = total["count"].get<int>() + 1;
      total["time_s"] = total["time_s"].get<double>() + durations.back().value;
      total["energy_j"] = total["energy_j"].get<double>() + at.energy.value;
      energy += at.energy.value;
    }
    return {{"data", pipeline},
            {"stage", stage},
            {"session", "s" + std::to_string(pipeline) + std::to_string(stage)},
            {"iteration", iteration_},
            {"version", held.is_null() ? json(0) : held["version"]},
            {"energy_j", energy},
            {"instructions", totals}};
  }
  /// One clock is for all instructions.
  static int clock_of(const json& clocks, std::size_t position) {
    if (clocks.empty()) return 0;
    return clocks[std::min(position, clocks.size() - 1)];
  }

  const TestServer& server_;
  const Schedule schedule_ = *one_f_one_b({.stages = kStages, .micro_batches = 4});
  const Profile profile_ = *parse_profile(test_profile(), "profile");
  int iteration_ = 0;
};

/// Of the plans that run, the one for a straggler's own costs.
json own_plan(const TestServer& server) {
  const json status = server.ask("GET", "/v1/jobs/j").json();
  for (const json& plan : status["plans"]) {
    if (plan["plan"].is_null() && plan["all_max"] == false) return plan;
  }
  return {};
}

TEST(Stragglers, ASlowStageGetsPlansOfItsOwnCostsFromTheWorkers) {
  const TestServer server;
  begin(server, "j");
  ASSERT_TRUE(eventually([&] { return planned(server, "j"); }));
  Ranks ranks(server);
  for (int i = 0; i < 30; ++i) ASSERT_NO_FATAL_FAILURE(ranks.iterate());
  EXPECT_TRUE(own_plan(server).is_null());
  ranks.slowness = 1.3;
  bool found = false;
  for (int i = 0; i < 200 && !found; ++i) {
    ASSERT_NO_FATAL_FAILURE(ranks.iterate());
    found = !own_plan(server).is_null();
  }
  ASSERT_TRUE(found) << server.ask("GET", "/v1/jobs/j").body;
  EXPECT_EQ(own_plan(server)["pipeline"], 1);
  EXPECT_EQ(own_plan(server)["pipelines"], 1);
  ranks.slowness = 1;
  for (int i = 0; i < 50 && !own_plan(server).is_null(); ++i) {
    ASSERT_NO_FATAL_FAILURE(ranks.iterate());
  }
  EXPECT_TRUE(own_plan(server).is_null());
}

}  // namespace
}  // namespace harpe
