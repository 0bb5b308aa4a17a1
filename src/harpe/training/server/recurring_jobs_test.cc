// Recurring jobs on a server, over Harpe's own routes and over Zeus's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harpe/base/test_directory_testing.h"
#include "harpe/training/server/recurring_routes.h"
#include "harpe/training/server/server_testing.h"
#include "harpe/training/store/store.h"

namespace harpe::training {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

json zeus_job() {
  return {{"job_id", nullptr},
          {"job_id_prefix", "mnist"},
          {"batch_sizes", {32, 8, 16}},
          {"default_batch_size", 16},
          {"eta_knob", 1.0},
          {"target_metric", 0.9},
          {"max_epochs", 10},
          {"mab_seed", 1},
          {"max_power", 300.0},
          {"number_of_gpus", 1},
          {"gpu_model", "NVIDIA A40"}};
}

/// A client of Zeus's batch size optimizer.
class ZeusClient {
 public:
  explicit ZeusClient(const TestServer& server) : server_(server) {
    const TestResponse registered = server_.ask("POST", "/jobs", zeus_job().dump());
    EXPECT_EQ(registered.status, 201) << registered.body;
    job_ = registered.json();
  }
  std::string id() const { return job_["job_id"]; }
  const json& job() const { return job_; }
  TestResponse next() const { return server_.ask("GET", "/jobs/batch_size?job_id=" + id()); }
  TestResponse report(const json& trial, double energy, double metric, int epoch) const {
    json body = trial;
    body.update(
        {{"time", 10.0 * epoch}, {"energy", energy}, {"metric", metric}, {"current_epoch", epoch}});
    return server_.ask("POST", "/report", body.dump());
  }
  /// Runs one recurrence that converges at its cost. Returns the batch size.
  int recur(const std::map<int, double>& costs) const {
    const json trial = next().json();
    const int size = trial["batch_size"];
    const json verdict = report(trial, costs.at(size), 1, 1).json();
    EXPECT_EQ(verdict["converged"], true) << verdict;
    return size;
  }

 private:
  const TestServer& server_;
  json job_;
};

TEST(RecurringJobs, ZeusClientsAreLedToTheCheapestBatchSize) {
  const TestServer server;
  const ZeusClient client(server);
  EXPECT_THAT(client.id(), MatchesRegex("mnist-[0-9a-f]{8}"));
  EXPECT_THAT(client.job()["batch_sizes"], ElementsAre(8, 16, 32));
  const std::map<int, double> costs{{8, 120}, {16, 100}, {32, 80}};
  EXPECT_EQ(client.recur(costs), 16);
  for (int i = 0; i < 15; ++i) client.recur(costs);
  EXPECT_EQ(client.recur(costs), 32);

  const json status = server.ask("GET", "/v1/recurring-jobs/" + client.id()).json();
  EXPECT_EQ(status["cheapest"]["batch_size"], 32);
  EXPECT_EQ(status["batch_sizes"][0],
            json({{"batch_size", 8}, {"results", 2}, {"converged", 2}, {"mean_cost", 120.0}}));
  EXPECT_EQ(status["trials"].size(), 17U);
  const json list = server.ask("GET", "/v1/recurring-jobs").json();
  EXPECT_EQ(list["jobs"][0]["id"], client.id());
  EXPECT_EQ(list["jobs"][0]["cheapest_batch_size"], 32);
  // Recurring jobs are not training jobs.
  EXPECT_TRUE(server.ask("GET", "/v1/jobs").json()["jobs"].empty());
  const json log = server.ask("GET", "/v1/recurring-jobs/" + client.id() + "/log").json();
  EXPECT_THAT(log["events"][0]["text"], HasSubstr("trial 1 (batch size 16) begins"));
}

TEST(RecurringJobs, ZeusClientsGetTheResponsesOfZeus) {
  const TestServer server;
  const ZeusClient client(server);
  json same = client.job();
  EXPECT_EQ(server.ask("POST", "/jobs", same.dump()).status, 200);
  same["eta_knob"] = 0.25;
  EXPECT_EQ(server.ask("POST", "/jobs", same.dump()).status, 409);
  same["eta_knob"] = 1.25;
  const TestResponse invalid = server.ask("POST", "/jobs", same.dump());
  EXPECT_EQ(invalid.status, 422);
  EXPECT_THAT(invalid.json()["detail"][0]["msg"].get<std::string>(), HasSubstr("eta_knob"));

  const json first = client.next().json();
  EXPECT_EQ(first, json({{"job_id", client.id()}, {"batch_size", 16}, {"trial_number", 1}}));
  const json second = client.next().json();  // while the first is under way
  EXPECT_EQ(second["batch_size"], 16);
  EXPECT_EQ(second["trial_number"], 2);
  EXPECT_EQ(client.report(first, 50, 0.1, 1).json(),
            json({{"stop_train", false},
                  {"converged", false},
                  {"message", "Stop condition not met, keep training"}}));
  EXPECT_EQ(client.report(first, 90, 0.9, 2).json(),
            json({{"stop_train", true}, {"converged", true}, {"message", "Train succeeded"}}));
  EXPECT_EQ(client.report(first, 95, 0.9, 3).json(),
            json({{"stop_train", true},
                  {"converged", true},
                  {"message", "Result for this trial(1) is already reported."}}));
  EXPECT_EQ(client.report(second, 181, 0.1, 1).json()["converged"], false);

  EXPECT_EQ(server.ask("PATCH", "/trials", second.dump()).status, 200);
  EXPECT_EQ(server.ask("PATCH", "/trials", second.dump()).body, "null");
  json unknown = second;
  unknown["trial_number"] = 99;
  EXPECT_EQ(server.ask("PATCH", "/trials", unknown.dump()).status, 404);
  EXPECT_EQ(client.report(unknown, 1, 1, 1).status, 400);
  EXPECT_EQ(server.ask("GET", "/jobs/batch_size?job_id=none").status, 400);
  EXPECT_EQ(server.ask("GET", "/jobs/batch_size").status, 422);
  EXPECT_EQ(server.ask("GET", "/report").status, 405);
  EXPECT_EQ(server.ask("DELETE", "/jobs?job_id=" + client.id()).body, "null");
  EXPECT_EQ(server.ask("DELETE", "/jobs?job_id=" + client.id()).status, 404);
}

TEST(RecurringJobs, ATrialThatWasGivenUpEndsWithoutAResult) {
  const TestServer server;
  const ZeusClient client(server);
  const json trial = client.next().json();
  EXPECT_EQ(server.ask("PATCH", "/trials", trial.dump()).status, 200);
  EXPECT_EQ(client.report(trial, 50, 1, 1).status, 400);
  EXPECT_EQ(client.next().json()["batch_size"], 16);
}

TEST(RecurringJobs, RefuseReportsThatCannotBeByEitherProtocol) {
  const TestServer server;
  const ZeusClient client(server);
  const json trial = client.next().json();
  const TestResponse zeus = client.report(trial, 1e12, 1, 1);
  EXPECT_EQ(zeus.status, 400);
  EXPECT_THAT(zeus.json()["message"].get<std::string>(), HasSubstr("max_power, 300 W"));
  const std::string path = "/v1/recurring-jobs/" + client.id();
  const TestResponse own =
      server.ask("POST", path + "/trials/1/reports",
                 json({{"epoch", 1}, {"time_s", 1e-6}, {"energy_j", 1e-6}, {"metric", 1}}).dump());
  EXPECT_EQ(own.status, 400);
  client.report(trial, 1e12, 1, 1);
  client.report(trial, 1e12, 1, 1);
  const json log = server.ask("GET", path + "/log").json();
  ASSERT_EQ(log["events"].size(), 4U) << "the same again is noted once: " << log;
  EXPECT_THAT(log["events"][1]["text"], HasSubstr("a report of trial 1 was refused: energy"));
  EXPECT_EQ(server.ask("GET", path).json()["reports_refused"], 4);
  EXPECT_EQ(client.report(trial, 100, 1, 1).json()["converged"], true);
}

TEST(RecurringJobs, ATrialIsTakenBack) {
  const TestServer server;
  const ZeusClient client(server);
  const std::string path = "/v1/recurring-jobs/" + client.id();
  const json wrong = client.next().json();
  EXPECT_EQ(client.report(wrong, 0.001, 1, 1).json()["converged"], true);
  EXPECT_EQ(server.ask("POST", path + "/trials/1/end").status, 200);
  EXPECT_EQ(server.ask("GET", path).json()["cheapest"]["batch_size"], 16) << "ending is harmless";
  const json stopped = client.next().json();
  EXPECT_EQ(client.report(stopped, 90, 0.1, 1).json()["stop_train"], true);

  EXPECT_EQ(server.ask("DELETE", path + "/trials/1").status, 200);
  const json status = server.ask("GET", path).json();
  EXPECT_TRUE(status["cheapest"].is_null());
  for (const json& trial : status["trials"]) EXPECT_EQ(trial["status"], "failed");
  const json log = server.ask("GET", path + "/log").json();
  EXPECT_THAT(
      log["events"].back()["text"],
      HasSubstr("trial 1 (batch size 16) was retracted: its result no longer counts; nor do "
                "the results of trials that it stopped: 2"));
  EXPECT_EQ(client.next().json()["batch_size"], 16) << "it is explored again";
  EXPECT_EQ(server.ask("DELETE", path + "/trials/99").status, 404);
}

TEST(RecurringJobs, NoSizeThatConvergesIsAnErrorOfTheServerToZeus) {
  const TestServer server;
  const ZeusClient client(server);
  for (const int size : {16, 32}) {  // smaller ones are worse than the default
    const json trial = client.next().json();
    EXPECT_EQ(trial["batch_size"], size);
    EXPECT_EQ(client.report(trial, 10, 0.1, 10).json()["converged"], false);
  }
  const TestResponse refused = client.next();
  EXPECT_EQ(refused.status, 500);
  EXPECT_THAT(refused.json()["message"].get<std::string>(), HasSubstr("no batch size"));
}

TEST(RecurringJobs, SayOfAMetricThatWillNotReachItsTarget) {
  const TestServer server;
  json job = zeus_job();
  job.erase("job_id");
  job.erase("job_id_prefix");
  job["algorithm"] = "harpe";
  job["max_epochs"] = 50;
  const std::string path = "/v1/recurring-jobs/nightly";
  ASSERT_EQ(server.ask("PUT", path, job.dump()).status, 201);
  ASSERT_EQ(server.ask("POST", path + "/trials").status, 201);
  json verdict{{"stop", false}};
  int epoch = 0;
  while (verdict["stop"] == false && epoch < 50) {
    ++epoch;
    const json metric = epoch <= 6 ? json(0.1 * epoch) : json();  // then not a number
    verdict = server
                  .ask("POST", path + "/trials/1/reports",
                       json({{"epoch", epoch},
                             {"time_s", 10 * epoch},
                             {"energy_j", 50 * epoch},
                             {"metric", metric}})
                           .dump())
                  .json();
  }
  EXPECT_EQ(verdict["reason"], "will_not_reach") << verdict;
  EXPECT_EQ(verdict["converged"], false);
  EXPECT_LT(epoch, 15);
  EXPECT_THAT(
      server.ask("GET", path + "/log").body,
      HasSubstr("by its metric so far it will not reach its target within the 50 epochs allowed"));
}

TEST(RecurringJobs, HaveRoutesOfTheirOwn) {
  const TestServer server;
  json job = zeus_job();
  job.erase("job_id");
  job.erase("job_id_prefix");
  const std::string path = "/v1/recurring-jobs/nightly%20run";
  ASSERT_EQ(server.ask("PUT", path, job.dump()).status, 201);
  EXPECT_EQ(server.ask("PUT", path, job.dump()).status, 200);
  const TestResponse begun = server.ask("POST", path + "/trials");
  EXPECT_EQ(begun.status, 201) << begun.body;
  EXPECT_EQ(begun.json()["batch_size"], 16);
  EXPECT_EQ(begun.json()["why"], "pruning, visit 1");
  // A metric that is not a number reaches no target.
  const TestResponse lost =
      server.ask("POST", path + "/trials/1/reports",
                 R"({"epoch": 1, "time_s": 10, "energy_j": 50, "metric": null})");
  EXPECT_EQ(lost.json()["reason"], "go_on") << lost.body;
  const TestResponse reached =
      server.ask("POST", path + "/trials/1/reports",
                 R"({"epoch": 2, "time_s": 20, "energy_j": 90, "metric": 0.95})");
  EXPECT_EQ(reached.json()["reason"], "reached");
  EXPECT_EQ(reached.json()["cost"], 90);
  EXPECT_EQ(server.ask("GET", path + "/trials/1").json()["converged"], true);
  EXPECT_EQ(server.ask("POST", path + "/trials/1/reports", "{}").status, 400);
  EXPECT_EQ(server.ask("GET", path + "/trials/7").status, 404);
  EXPECT_EQ(server.ask("GET", path + "/trial").status, 404);
  EXPECT_EQ(server.ask("PATCH", path).status, 405);
  EXPECT_EQ(server.ask("DELETE", path).status, 200);
  EXPECT_EQ(server.ask("GET", path).status, 404);
}

TEST(RecurringJobs, GoOnAfterARestartOfTheServer) {
  const TestDirectory directory;
  const std::string url = "sqlite:" + (directory / "jobs.db").string();
  const std::map<int, double> costs{{8, 120}, {16, 100}, {32, 80}};
  const std::string path = "/v1/recurring-jobs/job";
  json job = zeus_job();
  job["job_id"] = job["job_id_prefix"] = "job";
  std::vector<int> restarted, uninterrupted;
  const auto recur = [&](const TestServer& server) {
    const json trial = server.ask("POST", path + "/trials").json();
    const int size = trial["batch_size"];
    const std::string reports =
        path + "/trials/" + std::to_string(trial["trial_number"].get<int>()) + "/reports";
    EXPECT_EQ(
        server
            .ask("POST", reports,
                 json({{"epoch", 1}, {"time_s", 1}, {"energy_j", costs.at(size)}, {"metric", 1}})
                     .dump())
            .status,
        200);
    return size;
  };
  for (int i = 0; i < 20; ++i) {
    const TestServer server({.store = *Store::open(url)});
    if (i == 0) {
      ASSERT_EQ(server.ask("PUT", path, job.dump()).status, 201);
    }
    restarted.push_back(recur(server));
  }
  const TestServer server;
  ASSERT_EQ(server.ask("PUT", path, job.dump()).status, 201);
  for (int i = 0; i < 20; ++i) uninterrupted.push_back(recur(server));
  EXPECT_EQ(restarted, uninterrupted);
}

TEST(RecurringJobs, AreKeptWhereTrainingJobsThatEndedGo) {
  const TestDirectory directory;
  const TestServer server(
      {.store = *Store::open("sqlite:" + (directory / "jobs.db").string()),
       .lifetimes = {
           .idle_after = Seconds{0.1}, .end_after = Seconds{0.2}, .keep_ended = Seconds{0.3}}});
  const ZeusClient client(server);
  EXPECT_TRUE(eventually([&] {
    return server.ask("GET", "/v1/recurring-jobs").json()["jobs"][0]["activity"] == "ended";
  }));
  EXPECT_EQ(client.next().json()["trial_number"], 1);
}

}  // namespace
}  // namespace harpe::training
