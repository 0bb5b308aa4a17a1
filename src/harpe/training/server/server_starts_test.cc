// Starts of training, lives of a job and refusals, as clients see them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "harpe/training/server/server_testing.h"

namespace harpe::training {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string rank_of(int data, int stage, const std::string& run, const std::string& session,
                    const json& more = json::object()) {
  json rank = json::parse(test_rank(data, stage, session));
  rank["run"] = run;
  rank.update(more);
  return rank.dump();
}

/// Returns the refused ranks, with the reasons.
std::map<std::string, json> refused(const TestServer& server) {
  std::map<std::string, json> all;
  const json status = server.ask("GET", "/v1/jobs/j").json();
  for (const json& one : status["refused"]) all[one["who"]] = one;
  return all;
}

TEST(Starts, AStrayRankIsToldToWaitAndNamedAndChangesNothing) {
  const TestServer server;
  begin(server, "j");
  ASSERT_TRUE(eventually([&] { return planned(server, "j"); }));
  const json before = server.ask("GET", "/v1/jobs/j").json();
  const TestResponse stray =
      server.ask("POST", "/v1/jobs/j/ranks", rank_of(0, 1, "wrong", "stray"));
  EXPECT_EQ(stray.status, 409);
  EXPECT_EQ(stray.json()["error"]["code"], "gathering");
  EXPECT_THAT(stray.json()["error"]["message"], HasSubstr("1 are there"));
  const json after = server.ask("GET", "/v1/jobs/j").json();
  for (const char* same : {"phase", "version", "ranks_registered", "incarnation", "epoch"})
    EXPECT_EQ(after[same], before[same]) << same;
  const auto all = refused(server);
  ASSERT_EQ(all.size(), 1);
  EXPECT_THAT(all.begin()->first, HasSubstr("pipeline 0, stage 1"));
  EXPECT_THAT(server.ask("GET", "/v1/jobs/j/log").body, HasSubstr("run 'wrong'"));
}

TEST(Starts, MostRanksOfAnotherStartTakeOverAndStreamsOfTheOneBeforeEnd) {
  const TestServer server;
  begin(server, "j");
  ASSERT_TRUE(eventually([&] { return planned(server, "j"); }));
  TestClient governed = server.client(), looking_on = server.client();
  governed.send("GET", "/v1/jobs/j/events?data=0&stage=0&tensor=0&session=s00");
  EXPECT_EQ(governed.receive().status, 200);
  looking_on.send("GET", "/v1/jobs/j/events");
  EXPECT_EQ(looking_on.receive().status, 200);
  EXPECT_EQ(server.ask("GET", "/v1/jobs/j/events?data=0&stage=0&session=other").status, 409);
  std::vector<int> statuses;
  for (const auto& [data, stage] : {std::pair{0, 0}, {0, 1}, {1, 0}, {1, 1}}) {
    statuses.push_back(
        server.ask("POST", "/v1/jobs/j/ranks", rank_of(data, stage, "second", "new")).status);
  }
  EXPECT_THAT(statuses, ::testing::ElementsAre(409, 409, 200, 200));
  while (!governed.event("phase").empty()) {
  }
  EXPECT_EQ(
      server.ask("POST", "/v1/jobs/j/reports", R"({"session": "s00", "iteration": 1, "time_s": 1})")
          .status,
      409);
  // The ranks that waited hold their places: registering again changes nothing.
  const json again = server.ask("POST", "/v1/jobs/j/ranks", rank_of(0, 0, "second", "new")).json();
  EXPECT_EQ(again["start"], 2);
  EXPECT_EQ(again["assignments"].back()["purpose"], "plan");
  EXPECT_EQ(server.ask("PUT", "/v1/jobs/j/stragglers/1", R"({"factor": 1.2})").status, 200);
  while (looking_on.event("phase") != R"({"phase":"straggling"})") {
  }
  // A process of the previous start is refused.
  const TestResponse old = server.ask(
      "POST", "/v1/jobs/j/ranks",
      rank_of(0, 0, "first", "s", {{"incarnation", again["incarnation"]}, {"start", 1}}));
  EXPECT_EQ(old.status, 409);
  EXPECT_EQ(old.json()["error"]["code"], "conflict");
}

TEST(Starts, AJobMadeAnewIsAnotherLifeWhoseVersionsBeginAgain) {
  const TestServer server;
  begin(server, "j");
  ASSERT_TRUE(eventually([&] { return planned(server, "j"); }));
  // More changes than the next life makes by itself, however soon its plans are ready.
  for (const char* objective :
       {R"({"slowdown": 0.3})", R"({"slowdown": 0})", R"({"slowdown": 0.3})"})
    EXPECT_EQ(server.ask("PUT", "/v1/jobs/j/objective", objective).status, 200);
  const json before = server.ask("GET", "/v1/jobs/j/assignments").json();
  EXPECT_EQ(server.ask("DELETE", "/v1/jobs/j").status, 200);
  begin(server, "j");
  const json after = server.ask("POST", "/v1/jobs/j/ranks", test_rank(0, 0)).json();
  EXPECT_NE(after["incarnation"], before["incarnation"]);
  EXPECT_LT(after["assignments"].back()["version"], before["assignments"].back()["version"]);
  json report = {
      {"session", "s00"}, {"iteration", 7}, {"time_s", 1}, {"incarnation", before["incarnation"]}};
  EXPECT_EQ(server.ask("POST", "/v1/jobs/j/reports", report.dump()).status, 409);
  EXPECT_TRUE(server.ask("GET", "/v1/jobs/j").json()["newest_iteration"].is_null());
  report["incarnation"] = after["incarnation"];
  const TestResponse taken = server.ask("POST", "/v1/jobs/j/reports", report.dump());
  EXPECT_EQ(taken.status, 200);
  EXPECT_EQ(taken.json()["incarnation"], after["incarnation"]);
  EXPECT_EQ(taken.json()["epoch"], after["epoch"]);
}

TEST(Starts, AnotherShapeTakesOverWithMostOfItsRanksAndKeepsThePlans) {
  const TestServer server;
  begin(server, "j");
  ASSERT_TRUE(eventually([&] { return planned(server, "j"); }));
  const std::string plans = server.ask("GET", "/v1/jobs/j/plans").body;
  TestClient listener = server.client();
  listener.send("GET", "/v1/jobs/j/events?data=1&stage=0");
  EXPECT_EQ(listener.receive().status, 200);
  json spec = json::parse(test_specification());
  spec["data"] = 1;
  const TestResponse proposed = server.ask("PUT", "/v1/jobs/j", spec.dump());
  EXPECT_EQ(proposed.status, 202);
  EXPECT_EQ(server.ask("PUT", "/v1/jobs/j", spec.dump()).status, 202) << "each rank sends it";
  const json more = {{"specification", proposed.json()["specification"]}};
  EXPECT_EQ(
      server.ask("POST", "/v1/jobs/j/ranks", rank_of(0, 0, "next", "n", {{"specification", "x"}}))
          .status,
      404);
  EXPECT_EQ(server.ask("POST", "/v1/jobs/j/ranks", rank_of(0, 0, "next", "n", more)).status, 409);
  EXPECT_EQ(server.ask("GET", "/v1/jobs/j").json()["data"], 2);
  EXPECT_EQ(server.ask("POST", "/v1/jobs/j/ranks", rank_of(0, 1, "next", "n", more)).status, 200);
  EXPECT_EQ(server.ask("PUT", "/v1/jobs/j", spec.dump()).status, 200);
  const json status = server.ask("GET", "/v1/jobs/j").json();
  EXPECT_EQ(status["data"], 1);
  EXPECT_EQ(status["phase"], "running");
  EXPECT_EQ(server.ask("GET", "/v1/jobs/j/plans").body, plans);
  // A pipeline that no longer exists has no events.
  while (!listener.event("phase").empty()) {
  }
}

TEST(Starts, TakingOverAtOnceIsForWhoHoldsTheTokenOfTheJob) {
  const auto keys = *net::TokenKeys::of("0123456789abcdef0123456789abcdef");
  const TestServer server({.keys = keys});
  const auto bearer = [&](const net::TokenClaims& claims) {
    return "Authorization: Bearer " + keys->sign(claims) + "\r\n";
  };
  const std::string any = bearer({.subject = "a", .scopes = {kJobWrite, kJobRead}});
  const std::string mine = bearer({.subject = "a", .scopes = {kJobWrite, kJobRead}, .job = "j"});
  TestClient client = server.client();
  client.ask("PUT", "/v1/jobs/j", test_specification(), any);
  for (const int data : {0, 1})
    for (const int stage : {0, 1})
      EXPECT_EQ(client.ask("POST", "/v1/jobs/j/ranks", test_rank(data, stage), any).status, 200);
  const std::string rank = rank_of(0, 0, "second", "new", {{"take_over", true}});
  EXPECT_EQ(client.ask("POST", "/v1/jobs/j/ranks", rank, any).status, 403);
  EXPECT_EQ(client.ask("POST", "/v1/jobs/j/ranks", rank_of(0, 0, "second", "new"), mine).status,
            409)
      << "a token alone does not mean that";
  EXPECT_EQ(client.ask("POST", "/v1/jobs/j/ranks", rank, mine).status, 200);
  EXPECT_EQ(client.ask("GET", "/v1/jobs/j", "", any).json()["ranks_registered"], 1);
}

TEST(Starts, WhoHasNoGoodTokenIsNamedToo) {
  const auto keys = *net::TokenKeys::of("0123456789abcdef0123456789abcdef");
  const TestServer server({.keys = keys});
  const std::string good = "Authorization: Bearer " +
                           keys->sign({.subject = "a", .scopes = {kJobWrite, kJobRead}}) + "\r\n";
  const std::string expired = "Authorization: Bearer " +
                              keys->sign({.subject = "a", .scopes = {kJobWrite}, .expires = 1000}) +
                              "\r\n";
  EXPECT_EQ(server.client().ask("PUT", "/v1/jobs/j", test_specification(), good).status, 201);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(server.client().ask("POST", "/v1/jobs/j/ranks", test_rank(0, 0), expired).status,
              401);
  }
  const json status = server.client().ask("GET", "/v1/jobs/j", "", good).json();
  ASSERT_EQ(status["refused"].size(), 1) << status;
  EXPECT_EQ(status["refused"][0]["who"], "address 127.0.0.1");
  EXPECT_EQ(status["refused"][0]["count"], 3);
  EXPECT_THAT(status["refused"][0]["why"], HasSubstr("401"));
  EXPECT_THAT(server.client().ask("GET", "/v1/jobs/j/log", "", good).body, HasSubstr("127.0.0.1"));
}

TEST(Starts, RanksOfZeusDoNotWaitForThoseThatAreGone) {
  const TestServer server({.schedule_patience = Seconds{0.3}});
  begin(server, "planned");
  const json asked = {{"job_id", ""},   {"pp_degree", 2},  {"dp_degree", 2},
                      {"tp_degree", 1}, {"world_size", 4}, {"job_metadata", "planned"}};
  const std::string id = server.ask("POST", "/register_job", asked.dump()).json();
  for (int rank = 0; rank < 4; ++rank) {
    const json info = {{"rank", rank},
                       {"dp_rank", rank / 2},
                       {"pp_rank", rank % 2},
                       {"tp_rank", 0},
                       {"available_frequencies", {1700, 1400, 1000}}};
    EXPECT_EQ(server.ask("POST", "/register_rank/" + id, info.dump()).status, 200);
  }
  TestClient first = server.client();
  first.send("GET", "/schedule/" + id + "?rank=1");
  const TestResponse told = server.ask("GET", "/schedule/" + id + "?rank=2");
  EXPECT_EQ(told.status, 503);
  EXPECT_THAT(told.json()["detail"], HasSubstr("0, 3"));
  EXPECT_EQ(first.receive().status, 503);
}

}  // namespace
}  // namespace harpe::training
