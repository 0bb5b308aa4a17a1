// Windows opened and ended by many threads while the sampling thread runs.

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "harpe/hw/system_clock.h"
#include "harpe/measure/energy_monitor.h"
#include "harpe/measure/test_gpu.h"

namespace harpe {
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

}  // namespace
}  // namespace harpe
