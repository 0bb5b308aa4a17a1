// Tests of the simulation itself: time, processes and networks work, a seed always gives the same
// run, and each broken invariant is detected.

#include "simulation/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harpe/base/scheduler_testing.h"
#include "simulation/history.h"
#include "simulation/network.h"
#include "simulation/process.h"
#include "simulation/require.h"

namespace harpe::simulation {
namespace {

using ::testing::ElementsAre;

TEST(Process, OneThatIsStoppedDoesNothingUntilItGoesOnAndItsClockDoes) {
  Scheduler scheduler;
  const MachineTime machine{.since_boot = 100_s, .rate = 1.1};
  Process process(scheduler, "p", machine, 1);
  std::vector<Instant> done;
  process.loop().after(1.1_s, [&] { done.push_back(scheduler.now()); });
  scheduler.after(0.5_s, [&] { process.stop(); });
  scheduler.after(3_s, [&] { process.go_on(); });
  scheduler.run_until(Instant{} + 4_s);
  EXPECT_THAT(done, ElementsAre(Instant{} + 3_s));
  EXPECT_NEAR((process.clock().now() - Instant{}).value, 100 + 4 * 1.1, 1e-6);
}

TEST(Process, WorkersOfOneThatIsKilledEndWithoutAnEffect) {
  Scheduler scheduler;
  const MachineTime machine;
  Process process(scheduler, "p", machine, 1);
  auto workers = process.make_workers()({.threads = 2});
  int done = 0;
  for (int i = 0; i < 3; ++i) {
    workers->run(
        "one",
        [&] {
          process.clock().sleep_until(process.clock().now() + 10_s);
          done += process.dead() ? 0 : 1;
        },
        training::Workers::Size::kSmall);
  }
  scheduler.after(15_s, [&] {
    process.kill();
    process.start_thread([&] { workers.reset(); });
  });
  scheduler.run_until(Instant{} + 16_s);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(workers, nullptr);
}

TEST(Process, ThreadsOfOneThatIsKilledWaitForEachOther) {
  Scheduler scheduler;
  const MachineTime machine;
  Process process(scheduler, "p", machine, 1);
  const auto sleep = [&] { process.clock().sleep_until(process.clock().now() + 10_s); };
  bool begun = false, first = false, second = false;
  process.start_thread([&] {
    sleep();
    begun = true;
    sleep();
    first = true;
  });
  process.start_thread([&] {
    while (!begun) sleep();
    process.kill();
    while (!first) sleep();
    second = true;
  });
  scheduler.run_until(Instant{} + 30_s);
  EXPECT_TRUE(second);
}

TEST(Network, WhatIsSentOverACutWayArrivesWhenItIsHealedUnlessItsClientHasGivenUp) {
  Scheduler scheduler;
  const MachineTime machine;
  Process client(scheduler, "client", machine, 1), server(scheduler, "server", machine, 2);
  Network network(scheduler, 1);
  int served = 0;
  network.serve("server", &server, [&](const net::HttpRequest&, const net::Reply& reply) {
    ++served;
    reply({.status = 200});
  });
  std::vector<int> statuses;
  const auto ask = [&] {
    network.ask(client, "server", {}, 10_s,
                {.answered = [&](const Result<net::HttpResponse>& response) {
                  statuses.push_back(response.ok() ? response->status : 0);
                }});
  };
  network.cut("client", "server");
  ask();
  scheduler.run_until(Instant{} + 5_s);
  EXPECT_THAT(statuses, ElementsAre());
  network.heal("client", "server");
  scheduler.run_until(Instant{} + 6_s);
  EXPECT_THAT(statuses, ElementsAre(200));
  network.cut("client", "server");
  ask();
  scheduler.run_until(Instant{} + 20_s);
  EXPECT_THAT(statuses, ElementsAre(200, 0));
  network.heal_all();
  scheduler.run_until(Instant{} + 21_s);
  EXPECT_EQ(served, 1);
  network.serve("server", nullptr, {});
  ask();
  scheduler.run_until(Instant{} + 22_s);
  EXPECT_THAT(statuses, ElementsAre(200, 0, 0));
}

TEST(Cluster, ASeedIsOneLife) {
  const auto life = [](std::uint64_t seed) {
    std::string lines;
    Cluster cluster(
        {.seed = seed, .broken = 60_s, .calm = 150_s, .trace = [&](const std::string& line) {
           lines += line + "\n";
         }});
    (void)cluster.run();
    return lines;
  };
  const std::string first = life(1);
  EXPECT_GT(first.size(), 10'000U);
  EXPECT_EQ(first, life(1));
  EXPECT_NE(first, life(2));
}

// --- Invariants that are broken by hand ---------------------------------------------------------

class BrokenHistory : public ::testing::Test {
 protected:
  BrokenHistory() {
    database_.step([](training::SimulatedTables& tables) {
      tables.join("a", {.url = "http://a", .machine = {}});
    });
  }

  void claim(const std::string& job) {
    database_.step([&](training::SimulatedTables& tables) { tables.add_owner(job, "a"); });
  }
  void respond(const std::string& server, const std::string& incarnation, int epoch) {
    net::HttpRequest request;
    request.path = "/v1/jobs/j/reports";
    history_.sent(server, request, 200,
                  R"({"version":1,"incarnation":")" + incarnation + R"(","epoch":)" +
                      std::to_string(epoch) + "}",
                  false);
  }
  /// Runs iterations of one second each.
  void train(int iterations, double factor, std::uint64_t other_version = 1) {
    for (int i = 0; i < iterations; ++i) {
      history_.iteration({.job = "j",
                          .number = number_++,
                          .began = scheduler_.now(),
                          .confirmed_since = scheduler_.now() + -unconfirmed_,
                          .by = {RanBy{"x", 1, 1}, RanBy{"x", 1, other_version}},
                          .time = Seconds{factor},
                          .all_max_time = 1_s,
                          .energy = 90_J,
                          .all_max_energy = 100_J,
                          .is_planned = true});
      scheduler_.run_until(scheduler_.now() + 1_s);
    }
  }

  Scheduler scheduler_;
  training::SimulatedDatabase database_;
  History history_{scheduler_, database_, {}};
  std::int64_t number_ = 0;
  Seconds unconfirmed_{};  ///< time since a rank last heard from its server
};

TEST_F(BrokenHistory, ACommandByAClaimThatWasReplacedIsSeen) {
  claim("j");
  respond("http://a", "x", 1);
  EXPECT_EXIT(respond("http://b", "x", 1), ::testing::ExitedWithCode(kBrokenStatus),
              "one server commands a job: http://b");
  EXPECT_EXIT(respond("http://a", "x", 0), ::testing::ExitedWithCode(kBrokenStatus),
              "one server commands a job: http://a commands j by epoch 0");
}

TEST_F(BrokenHistory, AJobThatWasDeletedAndSpeaksIsSeen) {
  claim("j");
  respond("http://a", "x", 1);
  history_.deleted("j", history_.incarnations("j"));
  respond("http://a", "y", 1);
  EXPECT_EXIT(respond("http://a", "x", 1), ::testing::ExitedWithCode(kBrokenStatus),
              "deleted stays deleted");
}

TEST_F(BrokenHistory, RanksThatRunByDifferentAssignmentsForLongAreSeen) {
  train(40, 1, 2);
  train(1, 1);
  EXPECT_EXIT(train(60, 1, 2), ::testing::ExitedWithCode(kBrokenStatus),
              "all ranks run by the same assignments");
  history_.troubled(true);
  train(100, 1, 2);
  history_.troubled(false);
  train(40, 1, 2);
  EXPECT_EQ(history_.figures().mixed, 180U);
}

TEST_F(BrokenHistory, AJobThatIsSlowerThanItsObjectiveIsSeen) {
  history_.set_objective("j", 0.1);
  train(200, 1.1);
  EXPECT_NEAR(history_.figures().slowest_window, 0, 1e-9);
  EXPECT_EXIT(train(200, 1.11), ::testing::ExitedWithCode(kBrokenStatus),
              "no job is slower than its objective");
}

TEST_F(BrokenHistory, ASlowJobWhoseRanksHaveNotHeardSinceTheLastFaultIsNotCounted) {
  history_.troubled(true);
  train(10, 1.11);
  history_.troubled(false);
  unconfirmed_ = 300_s;
  train(200, 1.11);
  EXPECT_EQ(history_.figures().windows, 0U);
  unconfirmed_ = 1_s;
  EXPECT_EXIT(train(200, 1.11), ::testing::ExitedWithCode(kBrokenStatus),
              "no job is slower than its objective");
}

TEST_F(BrokenHistory, SavingsThatAreNotThereAreSeen) {
  train(10, 1);
  history_.claimed("j", 100_J, 1_J);
  history_.claimed("j", 150_J, 60_J);
  history_.claimed("j", 104_J, 1_J);
  EXPECT_EQ(history_.figures().claims, 3U);
  EXPECT_EQ(history_.figures().claims_within, 2U);
  EXPECT_EXIT(history_.claimed("j", 110_J, 1_J), ::testing::ExitedWithCode(kBrokenStatus),
              "no joule is claimed outside its bar");
}

}  // namespace
}  // namespace harpe::simulation
