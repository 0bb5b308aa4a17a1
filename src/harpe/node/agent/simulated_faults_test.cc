// The agent with simulated GPUs that have the faults of real ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <string>

#include "harpe/device/hw/sim/simulation.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/node/agent/controller_testing.h"

namespace harpe::node {
namespace {

using ::testing::HasSubstr;

class SimulatedFaults : public ::testing::Test {
 protected:
  SimulatedFaults() { peer_.uid = ::getuid(); }
  ~SimulatedFaults() override { controller_.reset(); }

  void start(const std::string& faults) {
    simulation_ =
        *Simulation::make("[[gpu]]\nmodel = \"a100-sxm\"\ncount = 2\ncall_ms = 0\n" + faults,
                          "sim.toml", system_clock());
    Devices devices;
    for (int i = 0; i < simulation_->gpus(); ++i) devices.gpus.push_back(simulation_->gpu(i));
    const Policy policy =
        policy_of_this_user("read = true\nclocks_mhz = [210, 1410]\npower_limit_w = [100, 400]\n");
    ControllerOptions options = options_in(directory_);
    options.prompt_owners = false;
    options.longest_shutdown = 0.2_s;
    before_ = *simulation_->gpu(0)->power_limit();
    auto made = Controller::start(std::move(devices), policy, options, system_clock());
    ASSERT_TRUE(made.ok()) << made.error().text();
    controller_ = *std::move(made);
    const auto lease = controller_->take(peer_, {{0, 1}, 60_s, false, ""});
    ASSERT_TRUE(lease.ok()) << lease.error().text();
    lease_ = lease->id;
  }
  std::future<Result<Applied>> limit(int gpu, Watts watts) {
    const auto done = std::make_shared<std::promise<Result<Applied>>>();
    controller_->apply(peer_, lease_, gpu,
                       {.kind = Setting::Kind::kPowerLimit, .clocks = {}, .limit = watts},
                       [done](Result<Applied> applied) { done->set_value(std::move(applied)); });
    return done->get_future();
  }

  TestDirectory directory_;
  net::Peer peer_;
  std::shared_ptr<Simulation> simulation_;
  std::unique_ptr<Controller> controller_;
  std::string lease_;
  Watts before_;
};

TEST_F(SimulatedFaults, ACallOfHalfASecondDelaysNoOtherGpu) {
  start("[[fault]]\nkind = \"slow_call\"\ngpu = 0\nseconds = 0.5\ncalls = \"sets\"\n");
  auto slow = limit(0, 300_W);
  int answered = 0;
  // As many calls as complete while the slow call lasts.
  while (slow.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    ASSERT_TRUE(limit(1, Watts{150.0 + answered % 200}).get().ok());
    ++answered;
  }
  EXPECT_TRUE(slow.get().ok());
  EXPECT_GE(answered, 5);
}

TEST_F(SimulatedFaults, ALimitThatTheDriverRoundsIsSaidAlsoWhenItIsPutBack) {
  start("[[fault]]\nkind = \"limit_rounded\"\ngpu = 0\n");
  const auto applied = limit(0, 290_W).get();
  ASSERT_TRUE(applied.ok()) << applied.error().text();
  EXPECT_THAT(applied->text, HasSubstr(" W -> 275 W (requested: 290 W"));
  EXPECT_EQ(applied->limit, 275_W);
  // The original limit is not a multiple of 25 W either, so the driver rounds it, too. The agent
  // reports that.
  EXPECT_NE(before_, 275_W);
  std::promise<Status> done;
  controller_->release(peer_, lease_, [&](Status status) { done.set_value(std::move(status)); });
  const bool back = done.get_future().get().ok();
  EXPECT_EQ(back, *simulation_->gpu(0)->power_limit() == before_);
}

TEST_F(SimulatedFaults, WithoutPermissionTheErrorSaysSoAndNothingIsLeftToPutBack) {
  start("[[fault]]\nkind = \"no_permission\"\n");
  const auto applied = limit(0, 290_W).get();
  ASSERT_FALSE(applied.ok());
  EXPECT_EQ(applied.error().code, ErrorCode::kNoPermission);
  EXPECT_EQ(*simulation_->gpu(0)->power_limit(), before_);
  std::promise<Status> done;
  controller_->release(peer_, lease_, [&](Status status) { done.set_value(std::move(status)); });
  EXPECT_TRUE(done.get_future().get().ok());
  EXPECT_EQ(controller_->counts().restore_failures, 0);
}

TEST_F(SimulatedFaults, AGpuThatIsLostFailsAloneAndStaysInTheStateFile) {
  start("[[fault]]\nkind = \"gpu_lost\"\ngpu = 0\nafter_calls = 12\n");
  for (int i = 0; i < 20 && limit(0, Watts{200.0 + i}).get().ok(); ++i) {
  }
  EXPECT_EQ(limit(0, 300_W).get().error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(limit(1, 300_W).get().ok());
  std::promise<Status> done;
  controller_->release(peer_, lease_, [&](Status status) { done.set_value(std::move(status)); });
  EXPECT_FALSE(done.get_future().get().ok());
  EXPECT_EQ(*simulation_->gpu(1)->power_limit(), before_);
  EXPECT_GE(controller_->counts().restore_failures, 1);
}

}  // namespace
}  // namespace harpe::node
