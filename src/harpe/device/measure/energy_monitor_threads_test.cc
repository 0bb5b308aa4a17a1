// Windows opened and ended by many threads while devices are sampled, and drivers that are slow or
// hang.

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "harpe/base/mutex.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/device/measure/energy_monitor.h"
#include "harpe/device/measure/test_gpu.h"

namespace harpe::device {
namespace {

TEST(MonitoringThreads, WindowsOfManyThreadsDoNotMix) {
  Clock& clock = system_clock();
  const double start = (clock.now() - Instant{}).value;
  std::vector<std::unique_ptr<TestGpu>> gpus;
  std::vector<Gpu*> pointers;
  for (int i = 0; i < 4; ++i) {
    const double watts = 100.0 * (i + 1);
    gpus.push_back(std::make_unique<TestGpu>(
        clock, i, [watts](double) { return watts; },
        [watts, start](double time) { return watts * (time - start); }));
    pointers.push_back(gpus.back().get());
  }
  TestCpu cpu(clock, 50, 5);
  const std::vector<Cpu*> cpus = {&cpu};
  auto monitor = EnergyMonitor::start(pointers, cpus, {.rate = 200}, clock);
  ASSERT_TRUE(monitor.ok());

  const auto work = [&](int thread) {
    for (int round = 0; round < 20; ++round) {
      const std::string name = std::to_string(thread) + "/" + std::to_string(round);
      ASSERT_TRUE((*monitor)->begin(name).ok());
      ASSERT_TRUE((*monitor)->begin("inner " + name).ok());
      clock.sleep_until(clock.now() + Seconds{0.002});
      ASSERT_TRUE((*monitor)->so_far(name).ok());
      if (round % 3 == 0) {
        ASSERT_TRUE((*monitor)->cancel("inner " + name).ok());
      } else {
        ASSERT_TRUE((*monitor)->end("inner " + name).ok());
      }
      const auto result = (*monitor)->end(name);
      ASSERT_TRUE(result.ok());
      for (std::size_t i = 0; i < pointers.size(); ++i) {
        const double truth = 100.0 * (static_cast<double>(i) + 1) * result->time.value;
        const EnergyEstimate& energy = result->devices[i].energy;
        EXPECT_NEAR(energy.energy.value, truth, energy.error.value + 0.2 * truth);
      }
      (*monitor)->use_gpu(0, [](Gpu& gpu) { (void)gpu.instant_power(); });
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 6; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT((*monitor)->rounds(), 0);
  EXPECT_GT((*monitor)->sampling_cpu_time().value, 0);
}

TEST(MonitoringThreads, OneThreadAtATimeMayOpenAName) {
  Clock& clock = system_clock();
  TestGpu gpu(clock, 0, 100);
  const std::vector<Gpu*> pointers = {&gpu};
  auto monitor = EnergyMonitor::start(pointers, {}, {}, clock);
  ASSERT_TRUE(monitor.ok());
  std::vector<std::thread> threads;
  std::atomic<int> opened = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { opened += (*monitor)->begin("same").ok() ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(opened, 1);
}

TEST(MonitoringThreads, GpusAreLeftAloneWhileNoWindowIsOpen) {
  Clock& clock = system_clock();
  TestGpu gpu(clock, 0, 100);
  const std::vector<Gpu*> pointers = {&gpu};
  auto monitor = EnergyMonitor::start(pointers, {}, {.rate = 500}, clock);
  ASSERT_TRUE(monitor.ok());
  const std::uint64_t before = gpu.reads;
  clock.sleep_until(clock.now() + Seconds{0.1});
  monitor->reset();
  EXPECT_EQ(gpu.reads, before);
}

/// A GPU whose driver takes long for every call, or hangs until `let_go`.
class SlowGpu final : public Gpu {
 public:
  SlowGpu(Clock& clock, Seconds each) : clock_(&clock), each_(each) {
    identity_.index = 1;
    identity_.uuid = "GPU-slow";
    identity_.name = "Slow GPU";
  }
  const GpuIdentity& identity() const override { return identity_; }
  Result<Joules> total_energy() override {
    wait();
    return Joules{100 * (clock_->now() - Instant{}).value};
  }
  Result<Watts> instant_power() override {
    wait();
    return Watts{100};
  }
  /// Ends all current and later waits.
  void let_go() {
    const MutexLock lock(mutex_);
    free_ = true;
    freed_.notify_all();
  }

 private:
  void wait() {
    MutexLock lock(mutex_);
    freed_.wait_for(mutex_, std::chrono::duration<double>(each_.value),
                    [this]() HARPE_REQUIRES(mutex_) { return free_; });
  }
  Clock* clock_;
  Seconds each_;
  Mutex mutex_;
  CondVar freed_;
  bool free_ HARPE_GUARDED_BY(mutex_) = false;
  GpuIdentity identity_;
};

TEST(MonitoringThreads, ASlowGpuSpoilsNoOther) {
  Clock& clock = system_clock();
  TestGpu sound(clock, 0, 100);
  SlowGpu slow(clock, {0.2});
  const std::vector<Gpu*> pointers = {&slow, &sound};
  auto monitor = EnergyMonitor::start(pointers, {}, {.rate = 100}, clock);
  ASSERT_TRUE(monitor.ok());
  // Other work on the machine may delay some windows. The slow GPU would delay all of them.
  std::uint64_t most_reads = 0;
  double least_error = 1;
  for (int window = 0; window < 20 && (most_reads <= 20 || least_error >= 0.2); ++window) {
    ASSERT_TRUE((*monitor)->begin("work").ok());
    const std::uint64_t before = sound.reads;
    clock.sleep_until(clock.now() + Seconds{0.6});
    most_reads = std::max<std::uint64_t>(most_reads, sound.reads - before);
    const auto used = (*monitor)->end("work");
    ASSERT_TRUE(used.ok());
    const EnergyEstimate& energy = used->devices.back().energy;
    EXPECT_NEAR(energy.energy.value, 100 * used->time.value, std::max(1.0, energy.error.value));
    least_error = std::min(least_error, energy.error.value / energy.energy.value);
  }
  EXPECT_GT(most_reads, 20) << "it is read at its own rate";
  EXPECT_LT(least_error, 0.2);
  slow.let_go();
}

TEST(MonitoringThreads, AGpuThatHangsIsMarkedAndHoldsNoCall) {
  Clock& clock = system_clock();
  TestGpu sound(clock, 0, 100);
  SlowGpu hung(clock, {600});
  const std::vector<Gpu*> pointers = {&hung, &sound};
  const Instant start = clock.now();
  auto monitor = EnergyMonitor::start(pointers, {}, {.rate = 100, .patience = {0.2}}, clock);
  ASSERT_TRUE(monitor.ok());
  ASSERT_TRUE((*monitor)->begin("work").ok());
  const auto used = (*monitor)->end("work");
  ASSERT_TRUE(used.ok());
  EXPECT_LT((clock.now() - start).value, 5);
  ASSERT_TRUE(used->devices.front().error);
  EXPECT_THAT(used->devices.front().error->text(), ::testing::HasSubstr("has not answered for"));
  EXPECT_FALSE(used->devices.back().error);
  EXPECT_GT(used->devices.back().energy.energy.value, 0);
  EXPECT_FALSE((*monitor)->stop({0.1})) << "its call still runs";
  hung.let_go();
  EXPECT_TRUE((*monitor)->stop({60}));
}

}  // namespace
}  // namespace harpe::device
