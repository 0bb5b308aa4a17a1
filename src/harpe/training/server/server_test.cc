#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <set>

#include "harpe/training/server/job_events.h"
#include "harpe/training/server/server_testing.h"
#include "harpe/training/store/store.h"

namespace harpe::training {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

json report(int data, int stage, int iteration, std::uint64_t version, double time = 0.3) {
  return {{"data", data},
          {"stage", stage},
          {"session", "s" + std::to_string(data) + std::to_string(stage)},
          {"iteration", iteration},
          {"version", version},
          {"time_s", time},
          {"energy_j", 40},
          {"instructions",
           {{{"name", "forward"}, {"count", 4}, {"time_s", 0.05}, {"energy_j", 12}},
            {{"name", "backward"}, {"count", 4}, {"time_s", 0.1}, {"energy_j", 24}}}}};
}

TEST(Server, MeasuresAProfileInPlaceOfPlanningWhereThatIsAllItIsFor) {
  const TestServer server({.only_profile = ProfilingOptions{.slowdown_limit = 0.25}});
  begin(server, "gpt3");  // with a profile, so that other servers would plan at once
  const json status = server.ask("GET", "/v1/jobs/gpt3").json();
  EXPECT_EQ(status["phase"], "profiling");
  EXPECT_EQ(status["profiling"]["clocks_left"], status["profiling"]["clocks"]);
  EXPECT_EQ(status["spec"]["profiling"]["slowdown_limit"], 0.25);
  EXPECT_FALSE(status["spec"].contains("profile"));
  // The same specification again is the same job.
  EXPECT_EQ(server.ask("PUT", "/v1/jobs/gpt3", test_specification()).status, 200);
}

TEST(Server, MeasuresAtOneClockOnlyWhereItMakesNoPlans) {
  json specification = json::parse(test_specification());
  specification["profiling"]["as_is"] = true;
  const TestServer plans;
  const auto refused = plans.ask("PUT", "/v1/jobs/gpt3", specification.dump());
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("several clocks"));

  // Ranks are given no clock, and report the clock that they had.
  const TestServer server({.only_profile = ProfilingOptions{.as_is = true}});
  begin(server, "gpt3");
  const auto assignments = [&] {
    return server.ask("GET", "/v1/jobs/gpt3/assignments?data=0&stage=0").json()["assignments"];
  };
  EXPECT_EQ(assignments().back()["purpose"], "profile");
  EXPECT_EQ(assignments().back()["clocks_mhz"], json::array({0}));
  const auto phase = [&] { return server.ask("GET", "/v1/jobs/gpt3").json()["phase"]; };
  for (int iteration = 0; iteration < 100 && phase() == "profiling"; ++iteration) {
    for (int data = 0; data < 2; ++data) {
      for (int stage = 0; stage < 2; ++stage) {
        json one = report(data, stage, iteration, assignments().back()["version"]);
        one["clock_mhz"] = stage == 0 ? 1391 : 1006;
        ASSERT_EQ(server.ask("POST", "/v1/jobs/gpt3/reports", one.dump()).status, 200);
      }
    }
  }
  EXPECT_EQ(phase(), "characterizing");
  EXPECT_EQ(assignments().back()["clocks_mhz"], json::array({0}));
  const std::string profile = server.ask("GET", "/v1/jobs/gpt3/profile").body;
  EXPECT_THAT(profile, HasSubstr("0,forward,1400,0.0125"));
  EXPECT_THAT(profile, HasSubstr("1,backward,1000,0.025"));
}

TEST(Server, LeadsAJobWithAProfileToItsPlanAndThroughAStraggler) {
  const TestServer server;
  begin(server, "gpt3");
  TestClient listener = server.client();
  listener.send("GET", "/v1/jobs/gpt3/events?data=0&stage=0");
  EXPECT_EQ(listener.receive().status, 200);
  ASSERT_TRUE(eventually([&] { return planned(server, "gpt3"); }));

  // The event, the request and the response to a report give the same plan.
  const json asked = server.ask("GET", "/v1/jobs/gpt3/assignments?data=0&stage=0").json();
  EXPECT_EQ(asked["assignments"].back()["purpose"], "plan");
  json assignments;
  while (assignments != asked) {
    const std::string data = listener.event("assignments");
    ASSERT_FALSE(data.empty());
    assignments = json::parse(data);
  }
  const std::uint64_t version = assignments["assignments"].back()["version"];
  EXPECT_EQ(assignments["assignments"].back()["clocks_mhz"].size(), 8);
  TestResponse told = server.ask("POST", "/v1/jobs/gpt3/reports", report(0, 0, 0, 0).dump());
  ASSERT_EQ(told.status, 200) << told.body;
  EXPECT_EQ(told.json()["version"], version);
  EXPECT_EQ(told.json()["assignments"], assignments["assignments"]);
  // Known assignments are not sent again.
  json known = report(0, 1, 0, 0);
  known["known"] = version;
  EXPECT_FALSE(
      server.ask("POST", "/v1/jobs/gpt3/reports", known.dump()).json().contains("assignments"));

  // Pipeline 1 is slow: pipeline 0 gets another plan.
  const TestResponse slow = server.ask("PUT", "/v1/jobs/gpt3/stragglers/1", R"({"factor": 1.4})");
  ASSERT_EQ(slow.status, 200) << slow.body;
  EXPECT_EQ(slow.json()["phase"], "straggling");
  const json slower = json::parse(listener.event("assignments"));
  EXPECT_GT(slower["assignments"].back()["version"], version);
  EXPECT_NE(slower["assignments"].back()["clocks_mhz"],
            assignments["assignments"].back()["clocks_mhz"]);
  EXPECT_EQ(server.ask("GET", "/v1/jobs/gpt3").json()["stragglers"][0]["factor"], 1.4);
  EXPECT_EQ(server.ask("DELETE", "/v1/jobs/gpt3/stragglers/1").json()["phase"], "running");
  const json healed = json::parse(listener.event("assignments"));
  EXPECT_EQ(healed["assignments"].back()["clocks_mhz"],
            assignments["assignments"].back()["clocks_mhz"]);

  const TestResponse objective =
      server.ask("PUT", "/v1/jobs/gpt3/objective", R"({"least_energy": true})");
  EXPECT_EQ(objective.status, 200) << objective.body;
  EXPECT_EQ(server.ask("GET", "/v1/jobs/gpt3").json()["objective"], json({{"least_energy", true}}));
}

TEST(Server, KnowsWhatAJobUsed) {
  const TestServer server;
  begin(server, "gpt3");
  ASSERT_TRUE(eventually([&] { return planned(server, "gpt3"); }));
  for (int iteration = 0; iteration < 3; ++iteration) {
    for (const int rank : {0, 1, 2, 3}) {
      const json one = report(rank / 2, rank % 2, iteration, 0);
      const TestResponse told = server.ask("POST", "/v1/jobs/gpt3/reports", one.dump());
      ASSERT_EQ(told.status, 200) << told.body;
    }
  }
  const json energy = server.ask("GET", "/v1/jobs/gpt3/energy").json();
  ASSERT_EQ(energy["format"], "harpe.energy/1") << energy;
  ASSERT_EQ(energy["runs"].size(), 1U) << energy;
  const json& run = energy["runs"][0];
  EXPECT_EQ(run["job"], "gpt3");
  EXPECT_EQ(run["start"], 1);
  EXPECT_EQ(run["devices"], 4);
  EXPECT_TRUE(run["user"].is_null());
  const json& intervals = run["intervals"];
  const auto column = [&](const std::string& name) {
    const auto& columns = intervals["columns"];
    const auto at = std::find(columns.begin(), columns.end(), name) - columns.begin();
    double sum = 0;
    for (const json& row : intervals["rows"]) sum += row[at].get<double>();
    return sum;
  };
  EXPECT_NEAR(column("energy_j"), 12 * 40, 1e-5);
  EXPECT_NEAR(column("without_error_j"), 12 * 40, 1e-5) << "no error was reported";
  EXPECT_NEAR(column("measured_s"), 12 * 0.3, 1e-5);
  EXPECT_NEAR(column("iterations"), 3, 1e-5);
  EXPECT_EQ(server.ask("GET", "/v1/jobs/gpt3/energy?to=1000").json()["runs"].size(), 0U);
  EXPECT_EQ(server.ask("GET", "/v1/jobs/gpt3/energy?from=yesterday").status, 400);
  EXPECT_EQ(server.ask("GET", "/v1/jobs/none/energy").status, 404);
}

TEST(Server, WarnsWhereNoPipelineSlowsDownForAStraggler) {
  const TestServer server;
  begin(server, "two");
  json spec = json::parse(test_specification());
  spec["data"] = 1;
  ASSERT_EQ(server.ask("PUT", "/v1/jobs/one", spec.dump()).status, 201);
  const auto declared = [&](const std::string& job) {
    return server.ask("PUT", "/v1/jobs/" + job + "/stragglers/0", R"({"factor": 1.2})").json();
  };
  EXPECT_THAT(declared("one")["warning"].get<std::string>(), HasSubstr("no other pipeline"));
  ASSERT_TRUE(eventually([&] { return planned(server, "two"); }));
  EXPECT_FALSE(declared("two").contains("warning"));
  ASSERT_EQ(server.ask("PUT", "/v1/jobs/new", test_specification()).status, 201);
  EXPECT_THAT(declared("new")["warning"].get<std::string>(),
              HasSubstr("no plan is in force while the job is registering"));
}

TEST(Server, TellsWhatIsKnownOfAJob) {
  const TestServer server;
  begin(server, "j");
  ASSERT_TRUE(eventually([&] { return planned(server, "j"); }));
  const TestResponse profile = server.ask("GET", "/v1/jobs/j/profile");
  EXPECT_THAT(profile.body, HasSubstr("forward"));
  const json frontier = server.ask("GET", "/v1/jobs/j/frontier").json();
  ASSERT_GT(frontier["plans"].size(), 2);
  EXPECT_LT(frontier["plans"].front()["time_s"], frontier["plans"].back()["time_s"]);
  const auto plans = plan::PlanTable::parse(server.ask("GET", "/v1/jobs/j/plans").body, "answer");
  ASSERT_TRUE(plans.ok()) << plans.error().text();
  EXPECT_EQ(plans->plans().size(), frontier["plans"].size());
  const json log = server.ask("GET", "/v1/jobs/j/log").json();
  ASSERT_GT(log["events"].size(), 1);
  const std::int64_t first = log["events"][0]["sequence"];
  const json rest = server.ask("GET", "/v1/jobs/j/log?after=" + std::to_string(first)).json();
  EXPECT_EQ(rest["events"].size(), log["events"].size() - 1);
  EXPECT_EQ(server.ask("GET", "/v1/jobs").json()["jobs"].size(), 1);
  EXPECT_EQ(server.ask("DELETE", "/v1/jobs/j").status, 200);
  EXPECT_EQ(server.ask("GET", "/v1/jobs/j").status, 404);
  EXPECT_EQ(server.ask("GET", "/v1/jobs").json()["jobs"].size(), 0);
}

TEST(Server, KnowsARetryFromAnotherJobOrProcess) {
  const TestServer server;
  EXPECT_EQ(server.ask("PUT", "/v1/jobs/j", test_specification()).status, 201);
  EXPECT_EQ(server.ask("PUT", "/v1/jobs/j", test_specification()).status, 200);
  // The same specification, with a default written out.
  json spec = json::parse(test_specification());
  spec["chunks"] = 1;
  EXPECT_EQ(server.ask("PUT", "/v1/jobs/j", spec.dump()).status, 200);
  // Before any rank has registered, another specification replaces the job.
  spec["micro_batches"] = 5;
  const TestResponse other = server.ask("PUT", "/v1/jobs/j", spec.dump());
  EXPECT_EQ(other.status, 200);
  EXPECT_EQ(server.ask("GET", "/v1/jobs/j").json()["micro_batches"], 5);
  EXPECT_EQ(server.ask("PUT", "/v1/jobs/j", test_specification()).status, 200);
  EXPECT_EQ(server.ask("GET", "/v1/jobs/j").json()["micro_batches"], 4);
  EXPECT_EQ(server.ask("POST", "/v1/jobs/j/ranks", test_rank(0, 0)).status, 200);
  EXPECT_EQ(server.ask("POST", "/v1/jobs/j/ranks", test_rank(0, 0)).status, 200);
  EXPECT_EQ(server.ask("POST", "/v1/jobs/j/ranks", test_rank(0, 0, "other")).status, 409);
  EXPECT_EQ(server.ask("GET", "/v1/jobs/j").json()["ranks_registered"], 1);
}

TEST(Server, AnswersWhatIsWrongToWhoeverSentIt) {
  const TestServer server;
  begin(server, "j");
  ASSERT_TRUE(eventually([&] { return planned(server, "j"); }));
  const json before = server.ask("GET", "/v1/jobs/j").json();
  struct Wrong {
    const char *method, *path, *body;
    int status;
  };
  const Wrong all[] = {
      {"PUT", "/v1/jobs/..", "{}", 400},
      {"PUT", "/v1/jobs/a%2Fb", "{}", 400},
      {"PUT", "/v1/jobs/b", "", 400},
      {"PUT", "/v1/jobs/b", "[]", 400},
      {"PUT", "/v1/jobs/b", R"({"data": 0})", 400},
      {"PUT", "/v1/jobs/b", R"({"schedule": "1f1b", "micro_batches": 1000000, "stages": 1000})",
       400},
      {"GET", "/v1/jobs/none", "", 404},
      {"POST", "/v1/jobs/j", "", 405},
      {"POST", "/v1/jobs/j/ranks", "{}", 400},
      {"POST", "/v1/jobs/j/ranks", R"({"data": 7, "session": "x", "clocks_mhz": [1]})", 422},
      {"POST", "/v1/jobs/j/reports", R"({"session": "s00", "iteration": 1, "time_s": NaN})", 400},
      {"POST", "/v1/jobs/j/reports", R"({"session": "x", "iteration": 1, "time_s": 1})", 409},
      {"GET", "/v1/jobs/j/assignments?data=9", "", 404},
      {"GET", "/v1/jobs/j/assignments?stage=-1", "", 400},
      {"GET", "/v1/jobs/j/assignments?rank=1", "", 400},
      {"GET", "/v1/jobs/j/events?data=0&stage=2", "", 404},
      {"PUT", "/v1/jobs/j/stragglers/0", R"({"factor": 0.5})", 400},
      {"PUT", "/v1/jobs/j/stragglers/0", R"({"factor": 1e9})", 400},
      {"PUT", "/v1/jobs/j/stragglers/9", R"({"factor": 1.1})", 404},
      {"PUT", "/v1/jobs/j/stragglers/x", R"({"factor": 1.1})", 404},
      {"PUT", "/v1/jobs/j/objective", R"({"slowdown": 0.1, "deadline_s": 1})", 400},
      {"PUT", "/v1/jobs/j/objective", R"({"deadline_s": 0.001})", 422},
      {"GET", "/v1/jobs/j/log?after=x", "", 400},
      {"GET", "/v1/jobs/j/nothing", "", 404},
      {"GET", "/etc/passwd", "", 404},
      {"GET", "/v1/jobs/j/../../etc/passwd", "", 404},
  };
  for (const Wrong& wrong : all) {
    const TestResponse response = server.ask(wrong.method, wrong.path, wrong.body);
    EXPECT_EQ(response.status, wrong.status)
        << wrong.method << wrong.path << wrong.body << response.body;
    EXPECT_TRUE(response.json().contains("error")) << response.body;
  }
  json after = server.ask("GET", "/v1/jobs/j").json();
  EXPECT_EQ(after["reports_refused"], 1);
  after["reports_refused"] = 0;
  ASSERT_EQ(after["refused"].size(), 1) << "a place that it does not have";
  after["refused"].clear();
  EXPECT_EQ(after, before);
}

TEST(Server, HundredJobsAtOnceDoNotBlockIt) {
  const TestServer server;
  json spec = json::parse(test_specification());
  spec["plans"] = 5;
  constexpr int kJobs = 100;
  for (int i = 0; i < kJobs; ++i) {
    const std::string job = "/v1/jobs/job" + std::to_string(i);
    ASSERT_EQ(server.ask("PUT", job, spec.dump()).status, 201);
    TestClient client = server.client();
    for (const int data : {0, 1}) {
      for (const int stage : {0, 1}) {
        ASSERT_EQ(client.ask("POST", job + "/ranks", test_rank(data, stage)).status, 200);
      }
    }
  }
  // While they are planned one after the other, each request gets a response at once.
  double slowest = 0;
  bool saw_queue = false, saw_running = false;
  TestClient client = server.client();
  const auto planning = std::chrono::steady_clock::now();
  ASSERT_TRUE(eventually([&] {
    const auto begin = std::chrono::steady_clock::now();
    const json jobs = client.ask("GET", "/v1/jobs").json()["jobs"];
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    slowest = std::max(slowest, took.count());
    int running = 0;
    for (const json& job : jobs) {
      running += job["phase"] == "running" ? 1 : 0;
      if (!job["characterization"].is_object()) continue;
      (job["characterization"]["running"] ? saw_running : saw_queue) = true;
    }
    return running == kJobs;
  }));
  EXPECT_TRUE(saw_queue);
  EXPECT_TRUE(saw_running);
  // A blocked server would respond after all are planned, which takes long on a busy machine.
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - planning;
  EXPECT_LT(slowest, std::max(2.0, whole.count() / 2));
  RecordProperty("slowest_ms", static_cast<int>(slowest * 1000));
}

TEST(Server, PlansAreThoseOfFullEffortInTheEndAndStored) {
  const std::string file = ::testing::TempDir() + "harpe_best_plans_" + std::to_string(::getpid());
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file + suffix);
  const auto store = [&] { return *Store::open("sqlite:" + file); };
  std::string plans;
  constexpr int kMicroBatches = 8;  // with fewer, quick plans are optimal, too
  {
    const TestServer server({.store = store()});
    begin(server, "j", kMicroBatches);
    ASSERT_TRUE(eventually([&] { return planned(server, "j"); }));
    plans = server.ask("GET", "/v1/jobs/j/plans").body;
    EXPECT_TRUE(server.ask("GET", "/v1/jobs/j").json()["search"].is_null()) << "it is not wanted";
  }
  const auto frontier =
      characterize(one_f_one_b({.stages = 2, .micro_batches = kMicroBatches}),
                   *parse_profile(test_profile(), "profile"), {.blocking_power = Watts{80}});
  const auto table = [&](Effort effort) {
    return *plan::PlanTable::build(
        *frontier, {.plans = 20, .objective = Objective{}, .plan = {.effort = effort}});
  };
  const plan::PlanTable quick = table(Effort::kQuick);
  EXPECT_NE(plans, quick.json() + "\n");
  EXPECT_EQ(plans, plan::PlanTable::merged(quick, table(Effort::kFull)).json() + "\n");
  const TestServer again({.store = store()});
  EXPECT_TRUE(planned(again, "j")) << "there is nothing to be made again";
  EXPECT_EQ(again.ask("GET", "/v1/jobs/j/plans").body, plans);
}

TEST(Server, LimitsRatesAndChecksTokens) {
  const auto keys = *net::TokenKeys::of("0123456789abcdef0123456789abcdef");
  const TestServer server({.keys = keys});
  const auto with = [&](const net::TokenClaims& claims) {
    return "Authorization: Bearer " + keys->sign(claims) + "\r\n";
  };
  const std::string write = with({.subject = "a", .scopes = {kJobWrite}});
  const std::string read = with({.subject = "a", .scopes = {kJobRead}});
  const std::string both_of_one =
      with({.subject = "a", .scopes = {kJobRead, kJobWrite}, .job = "one"});
  TestClient client = server.client();
  EXPECT_EQ(client.ask("GET", "/health").status, 200);
  EXPECT_EQ(client.ask("GET", "/v1/jobs").status, 401);
  EXPECT_EQ(client.ask("GET", "/metrics").status, 401);
  EXPECT_EQ(client.ask("POST", "/register_job", "{}").status, 401);
  EXPECT_EQ(client.ask("PUT", "/v1/jobs/one", test_specification(), read).status, 403);
  EXPECT_EQ(client.ask("PUT", "/v1/jobs/one", test_specification(), both_of_one).status, 201);
  EXPECT_EQ(client.ask("PUT", "/v1/jobs/two", test_specification(), both_of_one).status, 403);
  EXPECT_EQ(client.ask("PUT", "/v1/jobs/two", test_specification(), write).status, 201);
  EXPECT_EQ(client.ask("GET", "/v1/jobs/two", "", write).status, 403);
  EXPECT_EQ(client.ask("GET", "/v1/jobs/two", "", both_of_one).status, 403);
  EXPECT_EQ(client.ask("GET", "/v1/jobs/one", "", both_of_one).status, 200);
  EXPECT_EQ(client.ask("GET", "/v1/jobs", "", both_of_one).json()["jobs"].size(), 1);
  EXPECT_EQ(client.ask("GET", "/v1/jobs", "", read).json()["jobs"].size(), 2);
  EXPECT_EQ(client.ask("GET", "/metrics", "", both_of_one).status, 403);
  EXPECT_EQ(client.ask("GET", "/metrics", "", read).status, 200);

  const TestServer slow({.requests_per_second = 3});
  TestClient other = slow.client();
  std::set<int> statuses;
  for (int i = 0; i < 5; ++i) {
    const TestResponse response = other.ask("GET", "/v1/jobs");
    statuses.insert(response.status);
    EXPECT_EQ(response.head.find("Retry-After: 1") != std::string::npos, response.status == 429);
  }
  EXPECT_THAT(statuses, ::testing::ElementsAre(200, 429));
}

TEST(Server, RefusesWhoShowsNoTokenBeforeItReadsTheBody) {
  const auto keys = *net::TokenKeys::of("0123456789abcdef0123456789abcdef");
  const TestServer server({.keys = keys});
  const std::string size = "Content-Length: 16000000\r\n";
  const std::string token =
      "Authorization: Bearer " + keys->sign({.subject = "a", .scopes = {kJobWrite}}) + "\r\n";
  const std::string begin = "PUT /v1/jobs/j HTTP/1.1\r\nHost: x\r\n";
  TestClient stranger = server.client();
  stranger.send_raw(begin + size + "Expect: 100-continue\r\n\r\n");
  const TestResponse refused = stranger.receive();
  EXPECT_EQ(refused.status, 401) << refused.head;
  EXPECT_THAT(refused.head, HasSubstr("Connection: close"));
  EXPECT_EQ(stranger.receive().status, 0);  // the connection has ended
  TestClient chunks = server.client();
  chunks.send_raw(begin + "Transfer-Encoding: chunked\r\n\r\n");
  EXPECT_EQ(chunks.receive().status, 401);
  TestClient known = server.client();
  known.send_raw(begin + token + size + "Expect: 100-continue\r\n\r\n");
  EXPECT_THAT(known.receive().head, HasSubstr("100 Continue"));
  // A body that is too large is also refused unread.
  TestClient large = server.client();
  large.send_raw(begin + token + "Content-Length: 16777217\r\n\r\n");
  EXPECT_EQ(large.receive().status, 413);
  EXPECT_EQ(large.receive().status, 0);
}

TEST(Server, StoresEventsWithAnyNames) {
  const std::string folder = ::testing::TempDir() + "server_names_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  {
    Result<std::unique_ptr<Store>> store =
        Store::open("sqlite:" + folder + "/db", {.name = "test"});
    ASSERT_TRUE(store.ok()) << store.error().text();
    const TestServer server({.store = *std::move(store)});
    begin(server, "j");
    // The log contains the name of another run.
    json rank = json::parse(test_rank(0, 0, "other"));
    rank["run"] = std::string("a\0b", 3);
    EXPECT_EQ(server.ask("POST", "/v1/jobs/j/ranks", rank.dump()).status, 409);
    EXPECT_EQ(server.ask("PUT", "/v1/jobs/j/objective", R"({"slowdown": 0.1})").status, 200);
    EXPECT_THAT(server.ask("GET", "/v1/jobs/j/log").body, HasSubstr("a\\\\x00b"));
    EXPECT_EQ(server.ask("GET", "/health").json()["status"], "ok");
  }
  std::filesystem::remove_all(folder);
}

TEST(Server, AnswersHeadWithoutABody) {
  const TestServer server;
  TestClient client = server.client();
  client.send("HEAD", "/health");
  const TestResponse response = client.ask("GET", "/health");
  EXPECT_EQ(response.status, 405);  // of HEAD; its length is the length of GET's response
  EXPECT_THAT(response.body, ::testing::StartsWith("HTTP/1.1 200"));
}

TEST(Server, LimitsWhatZeusClientsMakeItHold) {
  const TestServer server;
  const auto job = [](int degree, const std::string& metadata) {
    return json({{"pp_degree", 1},
                 {"dp_degree", degree},
                 {"tp_degree", 1},
                 {"world_size", degree},
                 {"job_metadata", metadata}})
        .dump();
  };
  EXPECT_EQ(server.ask("POST", "/register_job", job(1, std::string(1024, 'x'))).status, 200);
  EXPECT_EQ(server.ask("POST", "/register_job", job(1, std::string(1025, 'x'))).status, 422);
  std::string many = "[0";
  for (int i = 0; i < 500'000; ++i) many += ",0";
  EXPECT_EQ(server.ask("POST", "/register_job", many + "]").status, 413);
  // Not all of many errors are returned.
  json result = {{"rank", 0}, {"iter_time", {1}}, {"iter_energy", {1}}};
  result["time_breakdown"]["forward"] = std::vector<int>(10'000, 0);
  const std::string id = server.ask("POST", "/register_job", job(1'000'000, "j")).json();
  const TestResponse told = server.ask("POST", "/result/" + id, result.dump());
  EXPECT_EQ(told.status, 422);
  EXPECT_EQ(told.json()["detail"].size(), 32);
}

TEST(Server, WaitsForARankOfZeusWhoseConnectionEnded) {
  const TestServer server;
  const json metadata = {
      {"schedule", "1f1b"}, {"micro_batches", 4}, {"plans", 20}, {"profile", test_profile()}};
  const std::string id = server
                             .ask("POST", "/register_job",
                                  json({{"pp_degree", 2},
                                        {"dp_degree", 1},
                                        {"tp_degree", 1},
                                        {"world_size", 2},
                                        {"job_metadata", metadata.dump()}})
                                      .dump())
                             .json();
  for (const int rank : {0, 1}) {
    const json info = {{"rank", rank},
                       {"dp_rank", 0},
                       {"pp_rank", rank},
                       {"tp_rank", 0},
                       {"available_frequencies", {1700, 1400, 1000}}};
    ASSERT_EQ(server.ask("POST", "/register_rank/" + id, info.dump()).status, 200);
  }
  const std::string schedule = "/schedule/" + id + "?rank=";
  {
    TestClient first = server.client();
    first.send("GET", schedule + "0");
    ASSERT_TRUE(eventually([&] { return server.connections() == 1; }));
  }
  ASSERT_TRUE(eventually([&] { return server.connections() == 0; }));
  // The ended connection does not count as waiting: its response would be lost.
  TestClient other = server.client(), again = server.client();
  other.send("GET", schedule + "1");
  again.send("GET", schedule + "0");
  EXPECT_EQ(again.receive().json()["rank"], 0);
  EXPECT_EQ(other.receive().json()["rank"], 1);
}

TEST(Server, ForgetsListenersThatHaveLeft) {
  net::ServerLoop loop;
  Hosting hosting(loop, system_clock(), nullptr, {}, [](const std::string&) {});
  JobRegistry registry(loop, hosting, {});
  JobRegistry::JobPtr job;
  registry.put("j", test_specification(false), "", [&](Result<JobRegistry::Registered> registered) {
    ASSERT_TRUE(registered.ok());
    job = registered->job;
    loop.stop();
  });
  loop.run();
  const auto stays = job_events(registry, job, {});
  for (int i = 0; i < 1000; ++i) job_events(registry, job, {});
  hosting.tick();
  EXPECT_EQ(job->listeners.size(), 1U);
}

TEST(Server, SaysWhereAJobHasMoreRanksThanItHasConnectionsFor) {
  const TestServer small({.most_ranks = 3}), large({.most_ranks = 4});
  const TestResponse told = small.ask("PUT", "/v1/jobs/j", test_specification());
  EXPECT_EQ(told.status, 201);
  EXPECT_THAT(told.json()["warning"].get<std::string>(),
              AllOf(HasSubstr("has 4 ranks"), HasSubstr("connections for 3")));
  EXPECT_FALSE(large.ask("PUT", "/v1/jobs/j", test_specification()).json().contains("warning"));
}

}  // namespace
}  // namespace harpe::training
