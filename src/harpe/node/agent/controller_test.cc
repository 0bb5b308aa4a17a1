#include "harpe/node/agent/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <latch>
#include <sstream>
#include <thread>

#include "harpe/device/hw/system_clock.h"
#include "harpe/node/agent/controller_fixture.h"
#include "harpe/node/agent/process_watch.h"
#include "harpe/node/node_client/clock_channel.h"

namespace harpe::node {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(ControllerTest, WhatALeaseSetIsPutBackOnRelease) {
  start();
  const Lease lease = taken(kAlice, {0, 2});
  EXPECT_NEAR(lease.expires_in.value, 60, 1e-6);
  const auto applied = apply(kAlice, lease.id, 2, limit(200));
  ASSERT_TRUE(applied.ok()) << applied.error().text();
  EXPECT_EQ(applied->limit, 200_W);
  EXPECT_EQ(gpu(2).state().limit, 200_W);
  ASSERT_TRUE(release(kAlice, lease.id).ok());
  EXPECT_EQ(gpu(2).state(), TestGpu::State());
  EXPECT_EQ(controller_->counts().settings_applied, 1);
  EXPECT_EQ(controller_->counts().leases_taken, 1);
}

TEST_F(ControllerTest, TwoLeasesForOneGpuConflictAndNothingOfTheSecondIsGranted) {
  start();
  const Lease first = taken(kAlice, {1});
  const auto second = controller_->take(user(kBob), {{0, 1}, 60_s, true, ""});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  EXPECT_THAT(second.error().text(), HasSubstr("GPU 1 is leased by uid 12001 ('train.py')"));
  EXPECT_THAT(controller_->leases(user(kBob)), IsEmpty());
  EXPECT_THAT(controller_->leases(user(kAlice)), SizeIs(1));
  EXPECT_THAT(controller_->leases(user(0)), SizeIs(1));
  taken(kBob, {0});
}

TEST_F(ControllerTest, OnlyTheHolderAndRootMayUseOrEndALease) {
  start();
  const Lease lease = taken(kAlice, {0});
  EXPECT_EQ(apply(kBob, lease.id, 0, limit(200)).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(controller_->renew(user(kBob), lease.id, 50_s).ok());
  EXPECT_FALSE(release(kBob, lease.id).ok());
  EXPECT_EQ(apply(kAlice, lease.id, 1, limit(200)).error().code, ErrorCode::kConflict);
  EXPECT_EQ(apply(kAlice, lease.id, 9, limit(200)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(apply(0, lease.id, 0, limit(200)).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(release(0, lease.id).ok());
  EXPECT_EQ(gpu(0).state(), TestGpu::State());
}

TEST_F(ControllerTest, AnExpiredLeaseIsOfNoUseAndWhatItSetIsPutBack) {
  start();
  const Lease lease = taken(kAlice, {0});
  ASSERT_TRUE(apply(kAlice, lease.id, 0, limit(200)).ok());
  test_clock_.advance(59_s);
  ASSERT_TRUE(controller_->renew(user(kAlice), lease.id, 30_s).ok());
  test_clock_.advance(29_s);
  ASSERT_TRUE(apply(kAlice, lease.id, 0, limit(210)).ok());
  test_clock_.advance(2_s);
  EXPECT_EQ(apply(kAlice, lease.id, 0, limit(220)).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(controller_->renew(user(kAlice), lease.id, 30_s).ok());
  const Lease next = taken(kBob, {0});
  ASSERT_TRUE(apply(kBob, next.id, 0, limit(300)).ok());
  EXPECT_EQ(gpu(0).state().limit, 300_W);
  ASSERT_TRUE(release(kBob, next.id).ok());
  EXPECT_EQ(gpu(0).state(), TestGpu::State()) << "not what the expired lease had set";
  EXPECT_EQ(controller_->counts().leases_expired, 1);
}

TEST_F(ControllerTest, ExpiryNeedsNoRequest) {
  clock_ = &system_clock();
  start();
  const Lease lease = taken(kAlice, {0}, 0.2_s);
  ASSERT_TRUE(apply(kAlice, lease.id, 0, limit(200)).ok());
  EXPECT_TRUE(eventually([&] { return gpu(0).state() == TestGpu::State(); }));
  EXPECT_TRUE(eventually([&] { return controller_->counts().leases_expired == 1; }));
}

TEST_F(ControllerTest, ALeaseLastsNoLongerThanThePolicyAllows) {
  start();
  EXPECT_NEAR(taken(kAlice, {0}, 5000_s).expires_in.value, 100, 1e-6);
  EXPECT_FALSE(controller_->take(user(kAlice), {{1}, 0_s, true, ""}).ok());
  EXPECT_FALSE(controller_->take(user(kAlice), {{}, 10_s, true, ""}).ok());
}

TEST_F(ControllerTest, WhoIsNotNamedMayDoNothing) {
  start();
  const net::Peer stranger = user(54321);
  const auto code = [](const auto& result) {
    return result.ok() ? ErrorCode::kInternal : result.error().code;
  };
  EXPECT_EQ(code(controller_->take(stranger, {{0}, 10_s, true, ""})), ErrorCode::kNoPermission);
  EXPECT_EQ(code(controller_->implied_lease(stranger, {0})), ErrorCode::kNoPermission);
  controller_->read(stranger, 0, [&](const Result<GpuReading>& reading) {
    EXPECT_EQ(code(reading), ErrorCode::kNoPermission);
  });
  controller_->read_cpu(stranger, 0, [&](const Result<CpuEnergy>& energy) {
    EXPECT_EQ(code(energy), ErrorCode::kNoPermission);
  });
  controller_->power_limit_range(net::Peer(), 0, [&](const Result<PowerLimitRange>& range) {
    EXPECT_EQ(code(range), ErrorCode::kNoPermission);
  });
}

TEST_F(ControllerTest, TheDeathOfTheClientPutsBackAtOnce) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  start();
  net::Peer peer = user(kAlice);
  peer.pid = child;
  peer.start_ticks = net::start_of_process(child).value();
  const auto lease = controller_->take(peer, {{0}, 60_s, true, ""});
  ASSERT_TRUE(lease.ok()) << lease.error().text();
  ASSERT_TRUE(apply(kAlice, lease->id, 0, limit(200)).ok());
  ::kill(child, SIGKILL);
  EXPECT_TRUE(eventually([&] { return gpu(0).state() == TestGpu::State(); }));
  EXPECT_THAT(controller_->leases(user(0)), IsEmpty());
  EXPECT_EQ(controller_->counts().leases_lost_with_process, 1);
  ::waitpid(child, nullptr, 0);
}

TEST_F(ControllerTest, AProcessThatGotTheNumberOfAnotherIsNotTheClient) {
  start();
  net::Peer peer = user(kAlice);
  peer.pid = ::getpid();
  peer.start_ticks = net::start_of_process(::getpid()).value() + 1;
  EXPECT_EQ(controller_->take(peer, {{0}, 60_s, true, ""}).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(controller_->take(peer, {{0}, 60_s, false, ""}).ok());
}

TEST_F(ControllerTest, ASlowDriverDelaysItsOwnGpuAlone) {
  start();
  const Lease lease = taken(kAlice, {0, 1});
  std::latch entered(1), leave(1);
  gpu(0).before([&](const std::string& call) {
    if (call == "set_power_limit") {
      entered.count_down();
      leave.wait();
    }
    return ok_status();
  });
  std::promise<Result<Applied>> slow;
  controller_->apply(user(kAlice), lease.id, 0, limit(200),
                     [&](Result<Applied> applied) { slow.set_value(std::move(applied)); });
  entered.wait();
  // Everything else continues while that call hangs; otherwise this test would never end.
  EXPECT_TRUE(apply(kAlice, lease.id, 1, limit(250)).ok());
  EXPECT_TRUE(controller_->renew(user(kAlice), lease.id, 60_s).ok());
  taken(kBob, {2});
  std::atomic<int> refused = 0, answered = 0;
  for (int i = 0; i < 400; ++i) {
    controller_->apply(user(kAlice), lease.id, 0, limit(210), [&](const Result<Applied>& applied) {
      ++(applied.ok() ? answered : refused);
    });
  }
  EXPECT_EQ(refused, 144) << "what waits for a driver is bounded";
  auto slow_done = slow.get_future();
  EXPECT_NE(slow_done.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  gpu(0).before(nullptr);
  leave.count_down();
  EXPECT_TRUE(slow_done.get().ok());
  EXPECT_TRUE(eventually([&] { return answered == 256; }));
}

TEST_F(ControllerTest, ReadersWhoWaitShareOneReading) {
  start();
  std::latch entered(1), leave(1);
  gpu(0).before([&](const std::string& call) {
    if (call == "supported_clocks") {
      entered.count_down();
      leave.wait();
    }
    return ok_status();
  });
  controller_->supported_clocks(user(kAlice), 0, ClockDomain::kGraphics, [](const auto&) {});
  entered.wait();
  std::atomic<int> answered = 0;
  for (int i = 0; i < 1000; ++i) {
    controller_->read(user(kAlice), 0, [&](const Result<GpuReading>& reading) {
      if (reading.ok() && reading->power == 100_W && reading->power_limit == 275_W) ++answered;
    });
  }
  leave.count_down();
  EXPECT_TRUE(eventually([&] { return answered == 1000; }));
  EXPECT_EQ(gpu(0).calls("instant_power"), 1);
}

TEST_F(ControllerTest, ReadersDoNotTakeThePlacesOfThoseWhoSet) {
  start();
  const Lease lease = taken(kAlice, {0});
  std::latch entered(1), leave(1);
  gpu(0).before([&](const std::string& call) {
    if (call == "supported_clocks") {
      entered.count_down();
      leave.wait();
    }
    return ok_status();
  });
  controller_->supported_clocks(user(kBob), 0, ClockDomain::kGraphics, [](const auto&) {});
  entered.wait();
  // Waiting calls may return as late as the controller's end.
  const auto refused = std::make_shared<std::atomic<int>>(0);
  for (int i = 0; i < 1000; ++i) {
    controller_->power_limit_range(
        user(kBob), 0, [refused](const auto& range) { *refused += range.ok() ? 0 : 1; });
  }
  EXPECT_EQ(*refused, 744) << "what waits for a driver is bounded";
  std::promise<Result<Applied>> done;
  controller_->apply(user(kAlice), lease.id, 0, limit(200),
                     [&](Result<Applied> applied) { done.set_value(std::move(applied)); });
  gpu(0).before(nullptr);
  leave.count_down();
  EXPECT_TRUE(done.get_future().get().ok());
}

TEST_F(ControllerTest, ReadersGetAFifthOfTheOwnersTime) {
  start();
  const Lease lease = taken(kAlice, {0});
  gpu(0).before([this](const std::string& call) {
    if (call == "power_limit_range") test_clock_.advance(0.01_s);  // a slow reading
    return ok_status();
  });
  std::atomic<int> answered = 0;
  for (int i = 0; i < 3; ++i) {
    controller_->power_limit_range(user(kBob), 0, [&](const auto&) { ++answered; });
  }
  EXPECT_TRUE(eventually([&] { return answered == 1; }));
  gpu(0).before(nullptr);  // setting a limit reads the range, too
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(apply(kAlice, lease.id, 0, limit(200 + i)).ok());
  }
  EXPECT_EQ(answered, 1);
  test_clock_.advance(0.041_s);
  ASSERT_TRUE(apply(kAlice, lease.id, 0, limit(300)).ok());  // also wakes the owner
  EXPECT_TRUE(eventually([&] { return answered == 3; })) << "the next ones take no time";
}

TEST_F(ControllerTest, WhatCannotBePutBackIsTriedAgainAndNothingIsSetBefore) {
  clock_ = &system_clock();
  start();
  const Lease lease = taken(kAlice, {0});
  ASSERT_TRUE(apply(kAlice, lease.id, 0, limit(200)).ok());
  // Outlives this test, as the controller restores everything once more when it ends.
  const auto broken = std::make_shared<std::atomic<bool>>(true);
  gpu(0).before([broken](const std::string& call) -> Status {
    if (*broken && call == "set_power_limit") return Error::of(ErrorCode::kUnavailable, "GPU lost");
    return ok_status();
  });
  const Status released = release(kAlice, lease.id);
  ASSERT_FALSE(released.ok());
  EXPECT_THAT(released.error().text(),
              HasSubstr("GPU lost; the agent tries again to restore: power limit 275 W"));
  const Lease next = taken(kBob, {0});
  const auto refused = apply(kBob, next.id, 0, limit(300));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text(), HasSubstr("GPU lost"));
  *broken = false;
  EXPECT_TRUE(eventually([&] { return gpu(0).state() == TestGpu::State(); }));
  EXPECT_TRUE(apply(kBob, next.id, 0, limit(300)).ok());
  EXPECT_GE(controller_->counts().restore_failures, 1);
  EXPECT_THAT(controller_->events(), ElementsAre(HasSubstr("GPU 0 could not be restored"),
                                                 HasSubstr("restored by a later attempt")));
}

TEST_F(ControllerTest, StoppingPutsEverythingBack) {
  start();
  const Lease alice = taken(kAlice, {0});
  const Lease bob = taken(kBob, {1, 2});
  ASSERT_TRUE(apply(kAlice, alice.id, 0, limit(200)).ok());
  ASSERT_TRUE(apply(kBob, bob.id, 2, limit(200)).ok());
  controller_.reset();
  for (const auto& one : gpus_) EXPECT_EQ(one->state(), TestGpu::State());
}

TEST_F(ControllerTest, TheNextAgentPutsBackWhatACrashedOneLeft) {
  start();
  const Lease lease = taken(kAlice, {0, 1});
  ASSERT_TRUE(apply(kAlice, lease.id, 0, limit(200)).ok());
  ASSERT_TRUE(apply(kAlice, lease.id, 1,
                    {.kind = Setting::Kind::kLockClocks, .clocks = {{900}, {900}}, .limit = {}})
                  .ok());
  const TestGpu::State left[] = {gpu(0).state(), gpu(1).state()};
  fs::copy_file(options_.state_file, directory_.path() / "crashed.json");
  controller_.reset();
  fs::rename(directory_.path() / "crashed.json", options_.state_file);
  gpu(0).set(left[0]);
  gpu(1).set(left[1]);
  start();
  EXPECT_EQ(gpu(0).state(), TestGpu::State());
  EXPECT_EQ(gpu(1).state(), TestGpu::State());
  EXPECT_THAT(controller_->events(), SizeIs(2));
  EXPECT_EQ(apply(kAlice, lease.id, 0, limit(200)).error().code, ErrorCode::kNotFound);
}

TEST_F(ControllerTest, AStateFileThatCannotBeWrittenIsNoStart) {
  options_.state_file = directory_.path() / "none" / "state.json";
  EXPECT_FALSE(make().ok());
}

TEST_F(ControllerTest, DryRunSaysWhatItWouldDo) {
  options_.dry_run = true;
  start();
  const Lease lease = taken(kAlice, {0});
  EXPECT_THAT(apply(kAlice, lease.id, 0, limit(200))->text, HasSubstr("would set"));
  EXPECT_EQ(apply(kAlice, lease.id, 0, limit(100)).error().code, ErrorCode::kNoPermission);
  ASSERT_TRUE(release(kAlice, lease.id).ok());
  controller_.reset();
  EXPECT_EQ(gpu(0).state(), TestGpu::State());
  EXPECT_EQ(gpu(0).calls("set_power_limit"), 0);
  EXPECT_FALSE(fs::exists(options_.state_file));
}

TEST_F(ControllerTest, ImpliedLeasesBelongToTheProcessAndGrow) {
  start();
  net::Peer peer = user(kAlice);
  peer.pid = ::getpid();
  peer.start_ticks = net::start_of_process(::getpid()).value();
  const auto first = controller_->implied_lease(peer, {1});
  ASSERT_TRUE(first.ok()) << first.error().text();
  test_clock_.advance(99_s);
  const auto again = controller_->implied_lease(peer, {0, 1});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->id, first->id);
  EXPECT_THAT(again->gpus, ElementsAre(0, 1));
  EXPECT_NEAR(again->expires_in.value, 100, 1e-6);
  EXPECT_EQ(controller_->implied_lease(user(kBob), {1}).error().code, ErrorCode::kConflict);
  EXPECT_EQ(controller_->counts().leases_taken, 1);
}

TEST_F(ControllerTest, ListenersHearReadingsUntilTheyLetGo) {
  clock_ = &system_clock();
  options_.poll = 0.002_s;
  start();
  std::atomic<int> heard = 0;
  std::atomic<int> of_gpu[3] = {};
  auto handle = controller_->listen([&](int gpu, const GpuReading& reading) {
    if (reading.power == 100_W) ++heard, ++of_gpu[gpu];
  });
  EXPECT_TRUE(eventually([&] { return of_gpu[0] > 2 && of_gpu[1] > 2 && of_gpu[2] > 2; }));
  handle.reset();
  const int after = heard;
  const int polls = gpu(0).calls("instant_power");
  EXPECT_TRUE(eventually([&] {
    // Real time, enough for ten polls if there were any.
    const int before = gpu(0).calls("instant_power");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return gpu(0).calls("instant_power") == before;
  })) << polls;
  EXPECT_EQ(heard, after);
}

TEST_F(ControllerTest, CpuEnergyIsReadForWhoMayReadTheNode) {
  start();
  std::promise<Result<CpuEnergy>> done;
  controller_->read_cpu(user(kAlice), 0,
                        [&](Result<CpuEnergy> energy) { done.set_value(std::move(energy)); });
  EXPECT_EQ(done.get_future().get()->package, 7_J);
  controller_->read_cpu(user(kAlice), 1, [](const Result<CpuEnergy>& energy) {
    EXPECT_EQ(energy.error().code, ErrorCode::kNotFound);
  });
}

}  // namespace
}  // namespace harpe::node
