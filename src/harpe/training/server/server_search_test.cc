// Better plans, searched for in the background while jobs train.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "harpe/training/job/make_plans.h"
#include "harpe/training/server/server_testing.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

using nlohmann::json;

/// Slices of 500, 1000, 2000 ... windows.
constexpr SearchLimits kLimits{.time = Seconds{120}, .first = 500, .least = 2000};

/// Searches yield to all other work, and would take long while other tests run.
std::unique_ptr<Workers> without_nice(Workers::Options options) {
  options.nice = 0;
  return WorkerPool::make(options);
}

/// Of 118 random profiles with the clocks of test ranks, the profile for which a search gains most
/// over `Effort::kFull`, 0.14 %. If `kFull` finds the best plan, another profile is needed.
constexpr const char* kProfile =
    "stage,instruction,frequency,time,energy\n0,forward,1700,0.010041,3.012449\n"
    "0,forward,1400,0.012251,2.553640\n0,forward,1000,0.017270,2.244235\n"
    "0,backward,1700,0.020030,6.009052\n0,backward,1400,0.024347,5.070288\n"
    "0,backward,1000,0.034117,4.444700\n1,forward,1700,0.010874,3.262270\n"
    "1,forward,1400,0.013245,2.793850\n1,forward,1000,0.018609,2.412772\n"
    "1,backward,1700,0.020554,6.166336\n1,backward,1400,0.025024,5.197783\n"
    "1,backward,1000,0.035350,4.579725\n2,forward,1700,0.010667,3.200132\n"
    "2,forward,1400,0.013112,2.710086\n2,forward,1000,0.018513,2.378088\n"
    "2,backward,1700,0.022939,6.881590\n2,backward,1400,0.028247,5.795391\n"
    "2,backward,1000,0.039613,5.147200\n";

std::string specification() {
  return json({{"data", 1},
               {"stages", 3},
               {"schedule", "1f1b"},
               {"micro_batches", 12},
               {"blocking_power_w", 80},
               {"plans", 1},
               {"objective", {{"slowdown", 0.03}}},
               {"profile", kProfile}})
      .dump();
}

void begin_search(const TestServer& server, const std::string& job = "j") {
  ASSERT_EQ(server.ask("PUT", "/v1/jobs/" + job, specification()).status, 201);
  for (const int stage : {0, 1, 2})
    ASSERT_EQ(server.ask("POST", "/v1/jobs/" + job + "/ranks", test_rank(0, stage)).status, 200);
}

json status(const TestServer& server, const std::string& job = "j") {
  return server.ask("GET", "/v1/jobs/" + job).json();
}

std::string state(const TestServer& server, const std::string& job = "j") {
  const json search = status(server, job)["search"];
  return search.is_null() ? "" : search["state"].get<std::string>();
}

/// Returns the energy of the objective's plan after `Effort::kFull` and a search of `windows`.
Joules energy_after(std::int64_t windows) {
  const JobSpec spec = *parse_job_spec(specification());
  const CharacterizeRequest request{.profile = *spec.profile,
                                    .blocking_power = std::vector(3, Watts{80}),
                                    .objective = spec.objective,
                                    .only_objective = true};
  const Frontier frontier = *characterize(spec, *planned_pipeline(spec), request);
  const plan::PlanTable table = *search_plan(spec, request, frontier, windows, {});
  return table.plans()[*table.for_objective()].energy;
}

TEST(PlanSearch, HandsOutWhatItFindsAndKeepsItOverARestart) {
  const std::string file = ::testing::TempDir() + "harpe_search_" + std::to_string(::getpid());
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file + suffix);
  std::string plans;
  {
    const TestServer server(
        {.store = *Store::open("sqlite:" + file), .search = kLimits, .make_workers = without_nice});
    begin_search(server);
    ASSERT_TRUE(eventually([&] { return state(server) == "ended"; })) << status(server);
    const json now = status(server);
    const std::int64_t windows = now["search"]["windows"];
    const double before = energy_after(0).value, after = energy_after(windows).value;
    ASSERT_LT(after, before) << "the profile is not one that a search gains with";
    ASSERT_EQ(now["plans"].size(), 1U);
    EXPECT_TRUE(now["plans"][0]["for_objective"]);
    EXPECT_DOUBLE_EQ(now["plans"][0]["energy_j"], after);
    EXPECT_NEAR(now["search"]["gained"], 1 - after / before, 1e-9);
    EXPECT_GE(windows, kLimits.least);
    EXPECT_NE(server.ask("GET", "/v1/jobs/j/log").body.find("% less energy"), std::string::npos);
    EXPECT_NE(server.ask("GET", "/metrics").body.find("harpe_server_better_plans_total 1\n"),
              std::string::npos);
    plans = server.ask("GET", "/v1/jobs/j/plans").body;
  }
  // A search that begins again and is shorter does not put back a worse plan.
  SearchLimits little = kLimits;
  little.least = little.first;
  const TestServer server(
      {.store = *Store::open("sqlite:" + file), .search = little, .make_workers = without_nice});
  ASSERT_EQ(server.ask("POST", "/v1/jobs/j/ranks", test_rank(0, 0)).status, 200) << "it wakes";
  ASSERT_TRUE(eventually([&] { return state(server) == "ended"; })) << status(server);
  EXPECT_EQ(status(server)["search"]["gained"], 0);
  EXPECT_EQ(server.ask("GET", "/v1/jobs/j/plans").body, plans);
}

bool is_searching(const TestServer& server) {
  return server.ask("GET", "/metrics").body.find("harpe_server_plan_searches_running 1\n") !=
         std::string::npos;
}

TEST(PlanSearch, IsForOneJobAtATimeAndEndsAtOnceWhereItIsNotWanted) {
  SearchLimits endless = kLimits;
  endless.first = endless.least = endless.most = std::int64_t{1} << 40;
  const TestServer server({.search = endless, .make_workers = without_nice});
  begin_search(server);
  ASSERT_TRUE(eventually([&] { return state(server) == "searching"; }));
  begin_search(server, "k");
  ASSERT_TRUE(eventually([&] { return state(server, "k") == "waiting"; }));
  // During the search, plans for other objectives are still made.
  ASSERT_EQ(server.ask("PUT", "/v1/jobs/k/objective", R"({"slowdown": 0.05})").status, 200);
  ASSERT_TRUE(eventually([&] {
    const json plans = status(server, "k")["plans"];
    return plans.size() == 1 && plans[0]["for_objective"] == true;
  }));
  EXPECT_EQ(state(server), "searching");
  EXPECT_TRUE(eventually([&] { return state(server, "k") == "waiting"; })) << "for that one now";

  ASSERT_EQ(server.ask("PUT", "/v1/jobs/j/stragglers/0", R"({"factor": 1.2})").status, 200);
  EXPECT_EQ(state(server), "halted");
  EXPECT_TRUE(eventually([&] { return state(server, "k") == "searching"; }));
  ASSERT_EQ(server.ask("DELETE", "/v1/jobs/j/stragglers/0").status, 200);
  EXPECT_TRUE(eventually([&] { return state(server) == "waiting"; }));
  ASSERT_EQ(server.ask("DELETE", "/v1/jobs/k").status, 200);
  EXPECT_TRUE(eventually([&] { return state(server) == "searching"; }));
  EXPECT_TRUE(is_searching(server));
  ASSERT_EQ(server.ask("DELETE", "/v1/jobs/j").status, 200);
  EXPECT_TRUE(eventually([&] { return !is_searching(server); }));
  begin_search(server);
  ASSERT_TRUE(eventually([&] { return state(server) == "searching"; }));
  // The server ends during the search.
}

}  // namespace
}  // namespace harpe::training
