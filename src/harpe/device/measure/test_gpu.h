#pragma once
/// \file
/// A GPU with known power over time and sensors like those of real GPUs. For tests.

#include <atomic>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "harpe/base/clock.h"
#include "harpe/device/hw/device.h"

namespace harpe::device {

class TestGpu final : public Gpu {
 public:
  TestGpu(Clock& clock, int index, std::function<double(double)> power,
          std::function<double(double)> energy)
      : clock_(&clock), power_(std::move(power)), energy_(std::move(energy)) {
    identity_.index = index;
    identity_.uuid = "GPU-test-" + std::to_string(index);
    identity_.name = "Test GPU";
    identity_.backend = "test";
  }
  /// Constant power.
  TestGpu(Clock& clock, int index, double watts)
      : TestGpu(
            clock, index, [watts](double) { return watts; },
            [watts](double time) { return watts * time; }) {}

  bool has_counter = true, has_instant = true, has_average = true;
  double phase = 0.031;  ///< phase of the counter's steps, s
  std::optional<Error> failure{};
  EventReasons reasons{};
  std::vector<std::int64_t> users{};
  std::atomic<std::uint64_t> reads = 0;

  const GpuIdentity& identity() const override { return identity_; }
  GpuIdentity& identity() { return identity_; }
  double truth() const { return energy_(now()); }

  Result<Joules> total_energy() override {
    if (!has_counter) return not_supported("energy");
    if (failure) return *failure;
    reads += 1;
    const double step = std::floor((now() - phase) / 0.1) * 0.1 + phase;
    return Joules{5000 + energy_(std::max(0.0, step))};
  }
  Result<Watts> instant_power() override {
    if (!has_instant) return not_supported("power");
    if (failure) return *failure;
    reads += 1;
    return Watts{power_(now())};
  }
  Result<Watts> average_power() override {
    if (!has_average) return not_supported("average power");
    if (failure) return *failure;
    return Watts{energy_(now()) - energy_(now() - 1)};
  }
  Result<EventReasons> event_reasons() override {
    if (failure) return *failure;
    return reasons;
  }
  Result<std::vector<std::int64_t>> processes() override { return users; }

 private:
  double now() const { return (clock_->now() - Instant{}).value; }
  Clock* clock_;
  std::function<double(double)> power_, energy_;
  GpuIdentity identity_;
};

class TestCpu final : public Cpu {
 public:
  TestCpu(Clock& clock, double package_watts, double dram_watts)
      : clock_(&clock), package_(package_watts), dram_(dram_watts) {}

  std::optional<Error> failure{};
  std::uint64_t reads = 0;

  int index() const override { return 0; }
  const std::string& name() const override { return name_; }
  bool has_dram() const override { return dram_ > 0; }
  Result<CpuEnergy> total_energy() override {
    if (failure) return *failure;
    reads += 1;
    const double now = std::floor((clock_->now() - Instant{}).value * 1000) / 1000;
    CpuEnergy energy{.package = {package_ * now}, .dram = {}};
    if (dram_ > 0) energy.dram = Joules{dram_ * now};
    return energy;
  }

 private:
  Clock* clock_;
  double package_, dram_;
  std::string name_ = "package-0";
};

}  // namespace harpe::device
