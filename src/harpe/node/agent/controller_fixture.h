#pragma once
/// \file
/// A test fixture with a controller of three test GPUs and a policy for two users and root.

#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harpe/node/agent/controller.h"
#include "harpe/node/agent/controller_testing.h"
#include "harpe/node/agent/gpu_testing.h"

namespace harpe::node {

inline constexpr std::int64_t kAlice = 12001, kBob = 12002;

class FixedCpu final : public Cpu {
 public:
  int index() const override { return 0; }
  const std::string& name() const override { return name_; }
  bool has_dram() const override { return false; }
  Result<CpuEnergy> total_energy() override { return CpuEnergy{7_J, std::nullopt}; }

 private:
  std::string name_ = "package-0";
};

inline constexpr const char* kPolicy =
    "[[allow]]\nusers = [12001, 12002, 0]\ngpus = '*'\nread = true\nclocks_mhz = [300, 1200]\n"
    "power_limit_w = [150, 400]\npersistence_mode = true\nmax_lease_s = 100\n";

inline net::Peer user(std::int64_t uid) {
  net::Peer peer;
  peer.uid = uid;
  return peer;
}

inline Setting limit(double watts) {
  return {.kind = Setting::Kind::kPowerLimit, .clocks = {}, .limit = {watts}};
}

class ControllerTest : public ::testing::Test {
 protected:
  ControllerTest() {
    options_.prompt_owners = false;
    clock_ = &test_clock_;
    for (int i = 0; i < 3; ++i) gpus_.push_back(std::make_unique<TestGpu>(i));
  }
  ~ControllerTest() override { controller_.reset(); }

  Result<std::unique_ptr<Controller>> make(const std::string& policy = kPolicy) {
    Devices devices;
    for (const auto& gpu : gpus_) devices.gpus.push_back(gpu->device());
    devices.cpus.push_back(std::make_unique<FixedCpu>());
    return Controller::start(std::move(devices), *Policy::parse(policy, "policy.toml"), options_,
                             *clock_);
  }
  Controller& start(const std::string& policy = kPolicy) {
    controller_.reset();
    auto made = make(policy);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().text());
    controller_ = *std::move(made);
    return *controller_;
  }
  Lease taken(std::int64_t uid, std::vector<int> gpus, Seconds duration = 60_s) {
    auto lease = controller_->take(user(uid), {std::move(gpus), duration, true, "train.py"});
    EXPECT_TRUE(lease.ok()) << (lease.ok() ? "" : lease.error().text());
    return lease.ok() ? *lease : Lease{};
  }
  Result<Applied> apply(std::int64_t uid, const std::string& lease, int gpu,
                        const Setting& setting) {
    std::promise<Result<Applied>> done;
    controller_->apply(user(uid), lease, gpu, setting,
                       [&](Result<Applied> applied) { done.set_value(std::move(applied)); });
    return done.get_future().get();
  }
  Status release(std::int64_t uid, const std::string& lease) {
    std::promise<Status> done;
    controller_->release(user(uid), lease,
                         [&](Status status) { done.set_value(std::move(status)); });
    return done.get_future().get();
  }
  TestGpu& gpu(std::size_t index) { return *gpus_[index]; }

  TestDirectory directory_;
  std::vector<std::unique_ptr<TestGpu>> gpus_;
  ControllerOptions options_ = options_in(directory_);
  TestClock test_clock_;
  Clock* clock_;
  std::unique_ptr<Controller> controller_;
};

}  // namespace harpe::node
