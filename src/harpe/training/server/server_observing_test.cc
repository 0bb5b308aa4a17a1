// Jobs that are only observed: ranks get no assignments, and workers estimate the saving of plans.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "harpe/training/emulated_training/emulation.h"
#include "harpe/training/server/server_testing.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(Observing, AssignsNothingAndEstimatesARange) {
  const TestServer server;
  json specification = json::parse(test_specification(false));
  specification["observe"] = true;
  ASSERT_EQ(server.ask("PUT", "/v1/jobs/j", specification.dump()).status, 201);
  const JobSpec spec = *parse_job_spec(test_specification());
  EmulatedTraining training(spec, *spec.profile, {.overhead = {}, .noise = 0});
  for (const RankCoordinates rank : training.places()) {
    RankRegistration one = training.registration(rank);
    one.gpu = "NVIDIA A40";
    one.clocks.clear();  // nothing is set, so none are needed
    const TestResponse entered =
        server.ask("POST", "/v1/jobs/j/ranks", rank_registration_json(one));
    ASSERT_EQ(entered.status, 200) << entered.body;
    EXPECT_EQ(entered.json()["assignments"], json::array());
  }
  for (int i = 0; i < 20; ++i) {
    for (const IterationReport& report : training.iterate()) {
      const TestResponse taken =
          server.ask("POST", "/v1/jobs/j/reports", iteration_report_json(report));
      ASSERT_EQ(taken.status, 200) << taken.body;
    }
  }
  const auto observed = [&] { return server.ask("GET", "/v1/jobs/j").json()["observed"]; };
  ASSERT_TRUE(eventually([&] { return observed()["estimated_saving_percent"].is_array(); }))
      << observed();
  EXPECT_EQ(observed()["estimated_by"], "model of a40");
  EXPECT_EQ(observed()["stages"].size(), 2u);
  EXPECT_EQ(observed()["stages"][0]["clock_mhz"], nullptr);
  const json status = server.ask("GET", "/v1/jobs/j").json();
  EXPECT_EQ(status["phase"], "observing");
  EXPECT_EQ(status["version"], 0);
  EXPECT_EQ(status["plans"], json::array());
  const TestResponse refused = server.ask("PUT", "/v1/jobs/j/objective", R"({"slowdown": 0.1})");
  EXPECT_EQ(refused.status, 422);
  EXPECT_THAT(refused.body, HasSubstr("only observed"));
  EXPECT_THAT(server.ask("GET", "/metrics").body,
              HasSubstr(R"(harpe_job_phase{job_id="j",phase="observing"} 1)"));
}

}  // namespace
}  // namespace harpe::training
