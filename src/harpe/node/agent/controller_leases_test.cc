// Leases on some of a GPU's controls, and the end of an agent whose driver fails or hangs.

#include <gmock/gmock.h>

#include <fstream>
#include <latch>
#include <sstream>

#include "harpe/device/hw/system_clock.h"
#include "harpe/node/agent/controller_fixture.h"

namespace harpe::node {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const Setting kLock{.kind = Setting::Kind::kLockClocks, .clocks = {{900}, {900}}, .limit = {}};
const Error kLost = Error::of(ErrorCode::kUnavailable, "GPU lost");

class ControllerLeases : public ControllerTest {
 protected:
  Lease taken_for(Controls controls, Seconds duration) {
    auto lease =
        controller_->take(user(kAlice), {{0}, duration, false, "harpe command line", controls});
    EXPECT_TRUE(lease.ok()) << (lease.ok() ? "" : lease.error().text());
    return lease.ok() ? *lease : Lease{};
  }
  std::string file(const std::filesystem::path& path) const {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  /// Makes the calls of a GPU that start with `beginning` fail until the returned flag is cleared.
  std::shared_ptr<std::atomic<bool>> break_calls(std::size_t index, const std::string& beginning) {
    const auto broken = std::make_shared<std::atomic<bool>>(true);
    gpu(index).before([broken, beginning](const std::string& call) -> Status {
      if (*broken && call.starts_with(beginning)) return kLost;
      return ok_status();
    });
    return broken;
  }
};

TEST_F(ControllerLeases, EndingOnePutsBackItsControlsAlone) {
  start();
  const Lease clocks = taken_for({Control::kClocks}, 90_s);
  const Lease power = taken_for({Control::kPowerLimit}, 30_s);
  ASSERT_TRUE(apply(kAlice, clocks.id, 0, kLock).ok());
  ASSERT_TRUE(apply(kAlice, power.id, 0, limit(200)).ok());
  const auto wrong = apply(kAlice, power.id, 0, kLock);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, ErrorCode::kConflict);
  EXPECT_EQ(wrong.error().text(), "the lease is for power limit, not for graphics clocks");
  EXPECT_THAT(controller_->holders(user(kBob), 0), SizeIs(2));
  EXPECT_EQ(controller_->holders(user(kBob), 0).front().id, "") << "it would give the lease";
  EXPECT_THAT(controller_->holders(user(54321), 0), IsEmpty());

  test_clock_.advance(31_s);  // the lease of the power limit expires
  EXPECT_THAT(controller_->leases(user(kAlice)), SizeIs(1));
  EXPECT_NEAR(controller_->leases(user(kAlice)).front().expires_in.value, 59, 1e-6);
  EXPECT_TRUE(eventually([&] { return gpu(0).state().limit == 275_W; }));
  EXPECT_EQ(gpu(0).state().graphics, (ClockRange{{900}, {900}}));
  EXPECT_TRUE(eventually(
      [&] { return file(options_.state_file).find("power_limit_w") == std::string::npos; }));
  EXPECT_THAT(file(options_.state_file), HasSubstr("graphics_clocks_mhz"));

  ASSERT_TRUE(release(kAlice, clocks.id).ok());
  EXPECT_EQ(gpu(0).state(), TestGpu::State());
  EXPECT_THAT(file(options_.state_file), Not(HasSubstr("graphics_clocks_mhz")));
}

TEST_F(ControllerLeases, ARefusedTakeIsInTheAuditLog) {
  start();
  taken(kAlice, {0});
  EXPECT_FALSE(controller_->take(user(kBob), {{0, 1}, 10_s, true, ""}).ok());
  EXPECT_FALSE(controller_->implied_lease(user(54321), {2}).ok());
  const std::string log = file(options_.audit_log);
  EXPECT_THAT(log,
              HasSubstr(R"("action":"take","uid":12002,"to":"GPUs 0, 1","result":"refused: )"));
  EXPECT_THAT(log, HasSubstr(R"("action":"take","uid":54321,"to":"GPU 2","result":"refused: )"));
}

TEST_F(ControllerLeases, AnImpliedLeaseThatGrowsKeepsToTheShortestTime) {
  start(std::string(kPolicy) +
        "[[allow]]\nusers = [12001]\ngpus = ['1']\nclocks_mhz = [300, 400]\n"
        "max_lease_s = 5000\n");
  ASSERT_TRUE(controller_->implied_lease(user(kAlice), {0}).ok());
  const auto grown = controller_->implied_lease(user(kAlice), {1});
  ASSERT_TRUE(grown.ok()) << grown.error().text();
  EXPECT_THAT(grown->gpus, ElementsAre(0, 1));
  EXPECT_NEAR(grown->expires_in.value, 100, 1e-6);
}

TEST_F(ControllerLeases, WhatAClientOfZeusSetStaysWhileItsProcessRuns) {
  start();
  net::Peer peer = user(kAlice);
  peer.pid = ::getpid();
  peer.start_ticks = net::start_of_process(::getpid()).value();
  const auto lease = controller_->implied_lease(peer, {0});
  ASSERT_TRUE(lease.ok()) << lease.error().text();
  ASSERT_TRUE(apply(kAlice, lease->id, 0, limit(200)).ok());
  for (int hour = 0; hour < 3; ++hour) {
    test_clock_.advance(3600_s);  // longer than the policy lets a lease last
    ASSERT_THAT(controller_->leases(user(kAlice)), SizeIs(1));
    EXPECT_EQ(controller_->leases(user(kAlice)).front().id, lease->id);
    EXPECT_EQ(gpu(0).state().limit, 200_W);
  }
  EXPECT_EQ(controller_->counts().leases_expired, 0);
}

TEST_F(ControllerLeases, AReadingOfALostGpuIsAnErrorThatNamesWhatIsLeft) {
  clock_ = &system_clock();
  start();
  const Lease lease = taken(kAlice, {0});
  ASSERT_TRUE(apply(kAlice, lease.id, 0, limit(200)).ok());
  const auto read = [&] {
    std::promise<Result<GpuReading>> done;
    controller_->read(user(kAlice), 0,
                      [&](Result<GpuReading> now) { done.set_value(std::move(now)); });
    return done.get_future().get();
  };
  auto broken = break_calls(0, "set_power_limit");
  ASSERT_FALSE(release(kAlice, lease.id).ok());
  const auto pending = read();
  ASSERT_TRUE(pending.ok());
  EXPECT_THAT(pending->restore_pending, HasSubstr("power limit 275 W (GPU lost)"));
  *broken = false;
  broken = break_calls(0, "");
  const auto lost = read();
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(lost.error().text(), HasSubstr("GPU lost"));
  *broken = false;
  EXPECT_TRUE(eventually([&] {
    const auto now = read();
    return now.ok() && now->restore_pending.empty() && now->power_limit == 275_W;
  }));
}

TEST_F(ControllerLeases, WhatAStoppedAgentCouldNotPutBackIsSaidAndDoneByTheNext) {
  clock_ = &system_clock();
  options_.longest_shutdown = 0.3_s;
  Mutex mutex;
  std::vector<std::string> heard;
  options_.on_event = [&](const std::string& text) {
    const MutexLock lock(mutex);
    heard.push_back(text);
  };
  start();
  const Lease lease = taken(kAlice, {0, 1});
  ASSERT_TRUE(apply(kAlice, lease.id, 0, limit(200)).ok());
  ASSERT_TRUE(apply(kAlice, lease.id, 1, limit(210)).ok());
  const auto broken = break_calls(1, "set_power_limit");
  controller_.reset();
  EXPECT_EQ(gpu(0).state(), TestGpu::State());
  EXPECT_THAT(heard, Contains(HasSubstr("GPU 1 stays changed; it could not be restored. Before it "
                                        "had: power limit 275 W. The agent restores that at its "
                                        "next start")));
  EXPECT_THAT(heard, Not(Contains(HasSubstr("GPU 0"))));
  *broken = false;
  heard.clear();
  start();
  EXPECT_EQ(gpu(1).state(), TestGpu::State());
  EXPECT_THAT(heard,
              ElementsAre(HasSubstr("that the last agent could not restore before it stopped")));
}

TEST_F(ControllerLeases, ADriverThatHangsDoesNotKeepTheAgentFromStopping) {
  clock_ = &system_clock();
  options_.longest_shutdown = 0.1_s;
  options_.longest_hang = 0.1_s;
  std::vector<std::string> heard;
  options_.on_event = [&](const std::string& text) { heard.push_back(text); };
  start();
  const Lease lease = taken(kAlice, {0, 1});
  ASSERT_TRUE(apply(kAlice, lease.id, 0, limit(200)).ok());
  ASSERT_TRUE(apply(kAlice, lease.id, 1, limit(200)).ok());
  std::latch entered(1), leave(1);
  gpu(0).before([&](const std::string& call) {
    if (call == "set_power_limit") {
      entered.count_down();
      leave.wait();
    }
    return ok_status();
  });
  std::atomic<int> responses = 0;
  controller_->apply(user(kAlice), lease.id, 0, limit(250), [&](const auto&) { ++responses; });
  entered.wait();
  const auto state_file = options_.state_file;
  // Abandons the hanging call and its objects instead of waiting for ever.
  controller_.reset();
  EXPECT_EQ(gpu(1).state(), TestGpu::State()) << "the other GPU is restored";
  EXPECT_THAT(heard,
              Contains(HasSubstr("GPU 0 stays changed, because a call of its driver does not "
                                 "return. Before it had: power limit 275 W")));
  EXPECT_THAT(file(state_file), HasSubstr("\"power_limit_w\": 275"));
  heard.clear();
  gpu(0).before(nullptr);
  leave.count_down();
  // The abandoned thread still restores the GPU, and calls no listener.
  EXPECT_TRUE(eventually([&] { return gpu(0).state() == TestGpu::State(); }));
  EXPECT_TRUE(
      eventually([&] { return file(state_file).find("power_limit_w") == std::string::npos; }));
  EXPECT_EQ(responses, 0);
  EXPECT_THAT(heard, IsEmpty());
  // The thread may still use the device, which must outlive it (controller.h).
  static_cast<void>(gpus_[0].release());
}

}  // namespace
}  // namespace harpe::node
