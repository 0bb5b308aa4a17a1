// Windows over several devices: names, overlaps, errors, sums. The test advances the time.

#include "harpe/device/measure/energy_monitor.h"

#include <gmock/gmock.h>

#include <cmath>
#include <memory>

#include "harpe/device/hw/system_clock.h"
#include "harpe/device/measure/test_gpu.h"

namespace harpe::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Monitoring : public testing::Test {
 protected:
  EnergyMonitor& start(std::vector<Gpu*> gpus, std::vector<Cpu*> cpus = {}) {
    options_.sampling_threads = false;
    auto monitor = EnergyMonitor::start(gpus, cpus, options_, clock_);
    EXPECT_TRUE(monitor.ok());
    monitor_ = std::move(*monitor);
    return *monitor_;
  }
  /// Lets time pass with samples at about 50 Hz.
  void pass(double seconds) {
    const Instant end = clock_.now() + Seconds{seconds};
    while (clock_.now() < end) {
      clock_.sleep_until(std::min(end, clock_.now() + Seconds{0.017}));
      monitor_->poll();
    }
  }
  WindowEnergy end(const std::string& name) {
    auto result = monitor_->end(name);
    EXPECT_TRUE(result.ok());
    return *result;
  }

  ManualClock clock_{Instant{100'000'000'000}};
  MonitorOptions options_;
  std::unique_ptr<EnergyMonitor> monitor_;
};

void expect_energy(const DeviceEnergy& device, double truth) {
  const EnergyEstimate& energy = device.energy;
  EXPECT_LE(std::abs(energy.energy.value - truth), energy.error.value + 1e-6)
      << device.label() << ": " << energy.energy.value << " +- " << energy.error.value << ", truth "
      << truth;
}

TEST_F(Monitoring, OverlappingAndNestedWindowsEachGetTheirOwn) {
  TestGpu gpu(
      clock_, 0, [](double time) { return 200 + time; },
      [](double time) { return 200 * time + time * time / 2; });
  EnergyMonitor& monitor = start({&gpu});
  ASSERT_TRUE(monitor.begin("outer").ok());
  const double outer = gpu.truth();
  pass(2);
  ASSERT_TRUE(monitor.begin("inner").ok());
  const double inner = gpu.truth();
  pass(1.234);
  ASSERT_TRUE(monitor.begin("overlapping").ok());
  const double overlapping = gpu.truth();
  pass(0.5);
  const WindowEnergy inner_result = end("inner");
  expect_energy(inner_result.devices[0], gpu.truth() - inner);
  EXPECT_NEAR(inner_result.time.value, 1.734, 1e-9);
  pass(3);
  expect_energy(end("outer").devices[0], gpu.truth() - outer);
  pass(0.07);
  expect_energy(end("overlapping").devices[0], gpu.truth() - overlapping);
}

TEST_F(Monitoring, NamesAreChecked) {
  TestGpu gpu(clock_, 0, 100);
  EnergyMonitor& monitor = start({&gpu});
  ASSERT_TRUE(monitor.begin("step").ok());
  EXPECT_EQ(monitor.begin("step").error().code, ErrorCode::kConflict);
  pass(1);
  EXPECT_TRUE(monitor.begin("step", true).ok()) << "restarts";
  pass(1);
  const Result<WindowEnergy> unknown = monitor.end("stepp");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(unknown.error().text(), HasSubstr("did you mean 'step'"));
  EXPECT_NEAR(end("step").time.value, 1, 1e-6) << "since the restart";
  EXPECT_FALSE(monitor.end("step").ok()) << "it has ended";
  ASSERT_TRUE(monitor.begin("other").ok());
  EXPECT_TRUE(monitor.cancel("other").ok());
  EXPECT_FALSE(monitor.cancel("other").ok());
}

TEST_F(Monitoring, ARunningWindowCanBeLookedAt) {
  TestGpu gpu(clock_, 0, 100);
  EnergyMonitor& monitor = start({&gpu});
  ASSERT_TRUE(monitor.begin("run").ok());
  pass(3);
  const auto so_far = monitor.so_far("run");
  ASSERT_TRUE(so_far.ok());
  expect_energy(so_far->devices[0], 300);
  pass(3);
  expect_energy(end("run").devices[0], 600);
}

/// The machine's clock, read by a thread that is interrupted before one of its readings.
class InterruptedClock final : public Clock {
 public:
  explicit InterruptedClock(int reading) : left_(reading) {}
  Instant now() const override {
    if (left_-- == 0) {
      const Instant until = system_clock().now() + kInterruption;
      while (system_clock().now() < until) {
      }
    }
    return system_clock().now();
  }
  void sleep_until(Instant until) override { system_clock().sleep_until(until); }
  static constexpr Seconds kInterruption{0.03};

 private:
  mutable int left_;
};

TEST(MonitoredWindows, StartAtTheirTimeOfDayThoughTheThreadIsInterrupted) {
  for (const bool is_before : {true, false}) {
    for (int reading = 0; reading < 4; ++reading) {
      InterruptedClock clock(reading);
      MonitorOptions options;
      options.sampling_threads = false;
      const auto monitor = EnergyMonitor::start({}, {}, options, clock);
      std::optional<Instant> at;
      if (is_before) at = system_clock().now() + Seconds{-2};
      ASSERT_TRUE((*monitor)->begin("run", false, at).ok());
      const auto window = (*monitor)->end("run");
      ASSERT_TRUE(window.ok());
      EXPECT_NEAR(window->started_at, time_of_day_at(window->begin, system_clock()), 0.01)
          << reading;
    }
  }
}

/// Takes a sample after each sleep.
class SampledClock final : public Clock {
 public:
  SampledClock(ManualClock& clock, EnergyMonitor& monitor) : clock_(clock), monitor_(monitor) {}
  Instant now() const override { return clock_.now(); }
  void sleep_until(Instant until) override {
    clock_.sleep_until(until);
    monitor_.poll();
  }

 private:
  ManualClock& clock_;
  EnergyMonitor& monitor_;
};

TEST_F(Monitoring, AnEndIsKnownBetterOnceTheCounterHasStepped) {
  // Power that is unknown between the counter's steps.
  const auto power = [](double time) { return 250 + 150 * std::sin(40 * time); };
  const auto energy = [](double time) { return 250 * time - 3.75 * std::cos(40 * time); };
  TestGpu gpu(clock_, 0, power, energy);
  gpu.has_instant = gpu.has_average = false;
  EnergyMonitor& monitor = start({&gpu});
  SampledClock clock(clock_, monitor);
  double off_at_once = 0, off_settled = 0;
  for (int ending = 0; ending < 24; ++ending) {
    for (const char* name : {"at once", "settled"}) ASSERT_TRUE(monitor.begin(name).ok());
    const double before = gpu.truth();
    pass(1 + 0.01 * ending);
    const double used = gpu.truth() - before;
    off_at_once += std::abs(end("at once").devices[0].energy.energy.value - used);
    const Instant asked = clock_.now();
    const auto settled = end_settled(monitor, "settled", Seconds{1}, clock);
    ASSERT_TRUE(settled.ok());
    EXPECT_EQ(settled->end.ns, asked.ns);
    EXPECT_GT(clock_.now(), asked);
    EXPECT_LT(clock_.now() - asked, Seconds{0.3});
    expect_energy(settled->devices[0], used);
    off_settled += std::abs(settled->devices[0].energy.energy.value - used);
  }
  EXPECT_LT(off_settled, 0.6 * off_at_once);
}

TEST_F(Monitoring, AnEndIsNotWaitedForLongerThanAsked) {
  TestGpu gpu(clock_, 0, 100);
  EnergyMonitor& monitor = start({&gpu});
  ASSERT_TRUE(monitor.begin("step").ok());
  pass(1);
  const Instant asked = clock_.now();
  // No sample is taken in the meantime.
  EXPECT_TRUE(end_settled(monitor, "step", Seconds{0.2}, clock_).ok());
  EXPECT_NEAR((clock_.now() - asked).value, 0.2, 0.011);
}

TEST_F(Monitoring, ALostDeviceIsMarkedAndTheOthersAreRight) {
  TestGpu sound(clock_, 0, 100), lost(clock_, 1, 200);
  EnergyMonitor& monitor = start({&sound, &lost});
  ASSERT_TRUE(monitor.begin("run").ok());
  pass(4);
  lost.failure = Error::of(ErrorCode::kUnavailable, "GPU 1 is lost; a restart may bring it back");
  pass(2);
  const WindowEnergy result = end("run");
  expect_energy(result.devices[0], 600);
  EXPECT_FALSE(result.devices[0].error);
  ASSERT_TRUE(result.devices[1].error);
  EXPECT_EQ(result.devices[1].error->code, ErrorCode::kUnavailable);
  EXPECT_GT(result.devices[1].failed_reads, 0);
  EXPECT_NEAR(result.devices[1].energy.energy.value, 800, 10) << "until it was lost";
  EXPECT_FALSE(result.complete());
}

TEST_F(Monitoring, ADeviceThatComesBackIsReadAgain) {
  TestGpu gpu(clock_, 0, 100);
  EnergyMonitor& monitor = start({&gpu});
  ASSERT_TRUE(monitor.begin("run").ok());
  pass(2);
  gpu.failure = Error::of(ErrorCode::kUnavailable, "away");
  pass(2);
  gpu.failure.reset();
  pass(3);
  const WindowEnergy result = end("run");
  EXPECT_TRUE(result.complete());
  EXPECT_GT(result.devices[0].failed_reads, 0);
  expect_energy(result.devices[0], 700);
  EXPECT_GT(result.devices[0].energy.unobserved.value, 1.5);
}

TEST_F(Monitoring, GpusWithoutACounterIntegratePowerAndThoseWithoutSensorsSaySo) {
  TestGpu no_counter(clock_, 0, 150), average_only(clock_, 1, 150), blind(clock_, 2, 150);
  no_counter.has_counter = false;
  average_only.has_counter = average_only.has_instant = false;
  blind.has_counter = blind.has_instant = blind.has_average = false;
  EnergyMonitor& monitor = start({&no_counter, &average_only, &blind});
  ASSERT_TRUE(monitor.begin("run").ok());
  pass(5);
  const WindowEnergy result = end("run");
  EXPECT_EQ(result.devices[0].energy.source, EnergySource::kPower);
  expect_energy(result.devices[0], 750);
  EXPECT_EQ(result.devices[1].energy.source, EnergySource::kAveragePower);
  expect_energy(result.devices[1], 750);
  EXPECT_EQ(result.devices[2].energy.source, EnergySource::kNone);
  ASSERT_TRUE(result.devices[2].error);
  EXPECT_EQ(result.devices[2].error->code, ErrorCode::kNotSupported);
}

TEST_F(Monitoring, CpusAndTheirMemoryAreCounted) {
  TestGpu gpu(clock_, 0, 300);
  TestCpu cpu(clock_, 80, 12);
  EnergyMonitor& monitor = start({&gpu}, {&cpu});
  ASSERT_TRUE(monitor.begin("run").ok());
  pass(7.5);
  const WindowEnergy result = end("run");
  ASSERT_EQ(result.devices.size(), 3);
  EXPECT_EQ(result.devices[1].label(), "CPU 0");
  expect_energy(result.devices[1], 600);
  EXPECT_EQ(result.devices[2].label(), "DRAM 0");
  expect_energy(result.devices[2], 90);
  EXPECT_NEAR(result.total().energy.value, 7.5 * 392, 5);
  EXPECT_NEAR(result.sum(DeviceEnergy::Kind::kDram).value, 90, 0.5);
  EXPECT_LT(cpu.reads, 6) << "counters of CPUs need no 50 Hz";
}

TEST_F(Monitoring, ACpuThatMayNotBeReadIsMarked) {
  TestGpu gpu(clock_, 0, 300);
  TestCpu cpu(clock_, 80, 0);
  cpu.failure = Error::of(ErrorCode::kNoPermission, "only root may");
  EnergyMonitor& monitor = start({&gpu}, {&cpu});
  ASSERT_TRUE(monitor.begin("run").ok());
  pass(1);
  const WindowEnergy result = end("run");
  EXPECT_FALSE(result.devices[0].error);
  ASSERT_TRUE(result.devices[1].error);
  EXPECT_EQ(result.devices[1].error->code, ErrorCode::kNoPermission);
  EXPECT_NEAR(result.total().energy.value, 300, 5);
}

TEST_F(Monitoring, ThrottlingInAWindowIsReported) {
  TestGpu gpu(clock_, 0, 300);
  EnergyMonitor& monitor = start({&gpu});
  ASSERT_TRUE(monitor.begin("cool").ok());
  pass(2);
  EXPECT_FALSE(end("cool").devices[0].reasons.throttled());
  ASSERT_TRUE(monitor.begin("hot").ok());
  pass(1);
  gpu.reasons.bits = EventReasons::kSoftwareThermal;
  pass(1);
  const WindowEnergy hot = end("hot");
  EXPECT_TRUE(hot.devices[0].reasons.throttled());
  EXPECT_NEAR(hot.devices[0].throttled_share, 0.5, 0.15);
}

TEST_F(Monitoring, AGpuGivenTwiceCountsOnce) {
  TestGpu gpu(clock_, 0, 300), same(clock_, 3, 300);
  same.identity().uuid = gpu.identity().uuid;
  EnergyMonitor& monitor = start({&gpu, &same});
  EXPECT_EQ(monitor.gpus().size(), 1);
}

TEST_F(Monitoring, ASuperchipsModuleIsNotCountedTwice) {
  class Module final : public Gpu {
   public:
    explicit Module(Clock& clock) : inner_(clock, 0, 500) {}
    const GpuIdentity& identity() const override { return inner_.identity(); }
    Result<Joules> total_energy() override { return inner_.total_energy(); }
    Result<Watts> instant_power() override { return inner_.instant_power(); }
    PowerScope power_scope() const override { return PowerScope::kModule; }

   private:
    TestGpu inner_;
  };
  Module module(clock_);
  TestCpu cpu(clock_, 80, 0);
  EnergyMonitor& monitor = start({&module}, {&cpu});
  ASSERT_TRUE(monitor.begin("run").ok());
  pass(4);
  const WindowEnergy result = end("run");
  EXPECT_TRUE(result.devices[0].whole_module);
  EXPECT_NEAR(result.total().energy.value, 2000, 5);
}

TEST_F(Monitoring, WithoutDevicesWindowsStillTellTime) {
  EnergyMonitor& monitor = start({});
  ASSERT_TRUE(monitor.begin("run").ok());
  clock_.advance({2});
  const WindowEnergy result = end("run");
  EXPECT_DOUBLE_EQ(result.time.value, 2);
  EXPECT_TRUE(result.devices.empty());
  EXPECT_EQ(result.total().source, EnergySource::kNone);
}

TEST_F(Monitoring, RatesOutOfRangeAreFaults) {
  for (const double rate : {0.0, -1.0, 5000.0, std::nan("")}) {
    EXPECT_FALSE(EnergyMonitor::start({}, {}, {.rate = rate}, clock_).ok());
  }
}

TEST_F(Monitoring, SpansOfThePastAreLookedUpWithoutReadingTheDevice) {
  // Work with pauses: 0.6 s at 300 W, 0.4 s at 100 W.
  const auto energy = [](double time) {
    const double whole = std::floor(time);
    return whole * 220 + std::min(time - whole, 0.6) * 300 +
           std::max(0.0, time - whole - 0.6) * 100;
  };
  TestGpu gpu(
      clock_, 0,
      [](double time) {
        // Real sensors do not repeat a number for long. One that does is treated as slow.
        return (std::fmod(time, 1) < 0.6 ? 300 : 100) + 0.01 * std::sin(1000 * time);
      },
      energy);
  EnergyMonitor& monitor = start({&gpu});
  ASSERT_TRUE(monitor.begin("training").ok());
  pass(40);
  std::vector<TimeSpan> spans;
  for (int second = 110; second < 138; ++second) {
    const Instant begin = Instant{} + Seconds{static_cast<double>(second)};
    spans.push_back({begin, begin + Seconds{0.6}});
  }
  const std::uint64_t reads = gpu.reads;
  const auto used = monitor.past(0, spans);
  ASSERT_TRUE(used.ok());
  EXPECT_EQ(gpu.reads, reads);
  ASSERT_EQ(used->size(), spans.size());
  double sum = 0;
  int held = 0;
  for (const EnergyEstimate& one : *used) {
    sum += one.energy.value;
    held += std::abs(one.energy.value - 180) <= one.error.value ? 1 : 0;
  }
  const auto count = static_cast<double>(spans.size());
  EXPECT_GE(held, 0.9 * count);
  EXPECT_NEAR(sum / count, 180, 2) << "edges that samples do not see are not by chance";
  EXPECT_EQ(monitor.past(1, spans).error().code, ErrorCode::kNotFound);
}

TEST_F(Monitoring, OfALostDeviceThePastIsKnownUntilThen) {
  TestGpu gpu(clock_, 0, 250);
  EnergyMonitor& monitor = start({&gpu});
  ASSERT_TRUE(monitor.begin("training").ok());
  pass(3);
  const Instant lost = clock_.now();
  gpu.failure = Error::of(ErrorCode::kUnavailable, "lost");
  pass(2);
  const std::vector<TimeSpan> spans = {{lost + Seconds{-2}, lost + Seconds{-1}},
                                       {lost + Seconds{-1}, lost + Seconds{1}},
                                       {lost + Seconds{1}, lost + Seconds{2}}};
  const auto used = monitor.past(0, spans);
  ASSERT_TRUE(used.ok());
  EXPECT_NEAR(used->at(0).energy.value, 250, 5);
  EXPECT_EQ(used->at(0).missing.value, 0);
  EXPECT_NEAR(used->at(1).missing.value, 1, 0.05);
  EXPECT_EQ(used->at(2).source, EnergySource::kNone);
  EXPECT_DOUBLE_EQ(used->at(2).missing.value, 1);
}

TEST_F(Monitoring, WhoUsesAGpuIsNoted) {
  TestGpu gpu(clock_, 0, 300);
  gpu.users = {4321, 17};
  EnergyMonitor& monitor = start({&gpu});
  ASSERT_TRUE(monitor.begin("run").ok());
  pass(1);
  EXPECT_THAT(end("run").devices[0].processes, ElementsAre(17, 4321));
}

}  // namespace
}  // namespace harpe::device
