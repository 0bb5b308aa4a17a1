// Undeclared stragglers, found in the reports of ranks to a server, whose workers make the plans.
// The ranks and their GPUs are emulated with the profile of the job.

#include <gtest/gtest.h>

#include <string>

#include "harpe/training/emulated_training/emulation.h"
#include "harpe/training/server/server_testing.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

using nlohmann::json;

/// All ranks of `test_specification`, in step.
class Ranks {
 public:
  explicit Ranks(const TestServer& server) : server_(server) {}

  void iterate() {
    for (const RankCoordinates rank : training_.places()) {
      const TestResponse given =
          server_.ask("GET", "/v1/jobs/j/assignments?data=" + std::to_string(rank.data) +
                                 "&stage=" + std::to_string(rank.stage));
      training_.take(rank, parse_rank_response(given.body)->assignments);
    }
    for (IterationReport& report : training_.iterate()) {
      const RankCoordinates rank = report.coordinates;
      report.session = "s" + std::to_string(rank.data) + std::to_string(rank.stage);
      const TestResponse taken =
          server_.ask("POST", "/v1/jobs/j/reports", iteration_report_json(report));
      ASSERT_EQ(taken.status, 200) << taken.body;
    }
  }

  /// Slows the first stage of the second pipeline.
  void slow(double factor) { training_.slow[{1, 0}] = factor; }

 private:
  const TestServer& server_;
  const JobSpec spec_ = *parse_job_spec(test_specification());
  EmulatedTraining training_{spec_, *spec_.profile, {.overhead = {}, .noise = 0}};
};

/// Returns the plan in force that was made for a straggler's own costs.
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
  ranks.slow(1.3);
  // Workers plan while the ranks iterate. On a busy machine, this takes more iterations.
  const auto iterate_until = [&](bool has_own_plan) {
    return eventually([&] {
      ranks.iterate();
      return testing::Test::HasFailure() || own_plan(server).is_null() != has_own_plan;
    });
  };
  ASSERT_TRUE(iterate_until(true)) << server.ask("GET", "/v1/jobs/j").body;
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(own_plan(server)["pipeline"], 1);
  EXPECT_EQ(own_plan(server)["pipelines"], 1);
  ranks.slow(1);
  EXPECT_TRUE(iterate_until(false)) << server.ask("GET", "/v1/jobs/j").body;
}

}  // namespace
}  // namespace harpe::training
