// The cost of sampling: processor time of the monitor's thread for 8 GPUs at 50 Hz, as a share of
// one core. The devices answer from memory, so that only Harpe's own work remains; their share is
// measured and printed separately. With --simulate FILE the simulated GPUs of that file are sampled
// instead, and the time includes their model.

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "harpe/device/hw/devices.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/device/measure/energy_monitor.h"
#include "harpe/device/measure/test_gpu.h"

namespace {

double thread_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Returns the processor seconds of one query for the energy of a span of the last seconds.
double cost_of_span(harpe::EnergyMonitor& monitor, harpe::Instant now) {
  constexpr int kRepeats = 100, kSpans = 64;
  std::vector<harpe::TimeSpan> spans;
  for (int i = kSpans; i > 0; --i) {
    const harpe::Instant begin = now + harpe::Seconds{-0.03 * (i + 10)};
    spans.push_back({begin, begin + harpe::Seconds{0.03}});
  }
  const double start = thread_time();
  for (int i = 0; i < kRepeats; ++i) (void)monitor.past(0, spans);
  return (thread_time() - start) / kRepeats / kSpans;
}

/// Returns the processor seconds of one reading of one device (power and counter).
double cost_of_reading(const std::vector<harpe::Gpu*>& gpus) {
  constexpr int kReadings = 2000;
  const double start = thread_time();
  for (int i = 0; i < kReadings; ++i) {
    for (harpe::Gpu* gpu : gpus) {
      (void)gpu->instant_power();
      (void)gpu->total_energy();
    }
  }
  return (thread_time() - start) / kReadings / static_cast<double>(gpus.size());
}

}  // namespace

namespace harpe::device {
namespace {

int run(int argc, char** argv) {
  constexpr double kRate = 50;
  double seconds = 20;
  DeviceOptions options;
  options.powercap_root.clear();
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--simulate") == 0) options.simulation = argv[i + 1];
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::atof(argv[i + 1]);
  }
  Clock& clock = system_clock();
  const double begin = (clock.now() - Instant{}).value;
  std::vector<std::unique_ptr<Gpu>> owned;
  if (options.simulation.empty()) {
    for (int i = 0; i < 8; ++i) {
      owned.push_back(std::make_unique<TestGpu>(
          clock, i, [](double) { return 300.0; },
          [begin](double time) { return 300 * (time - begin); }));
    }
  } else {
    auto devices = open_devices(options);
    if (!devices.ok()) {
      std::fprintf(stderr, "%s\n", devices.error().text().c_str());
      return 2;
    }
    owned = std::move(devices->gpus);
  }
  std::vector<Gpu*> gpus;
  for (const auto& gpu : owned) gpus.push_back(gpu.get());
  const double reading = cost_of_reading(gpus);

  auto monitor = EnergyMonitor::start(gpus, {}, {.rate = kRate}, clock);
  if (!monitor.ok() || !(*monitor)->begin("bench").ok()) return 1;
  const double before = (*monitor)->sampling_cpu_time().value;
  const std::uint64_t rounds = (*monitor)->rounds();
  const Instant start = clock.now();
  clock.sleep_until(start + Seconds{seconds});
  const double used = (*monitor)->sampling_cpu_time().value - before;
  const double time = (clock.now() - start).value;
  const auto sampled = static_cast<double>((*monitor)->rounds() - rounds);
  const double span = cost_of_span(**monitor, clock.now());
  const auto result = (*monitor)->end("bench");
  if (!result.ok()) return 1;

  const double devices = sampled * static_cast<double>(gpus.size()) * reading;
  std::printf("%zu GPUs (%s), %.1f rounds/s for %.1f s\n", gpus.size(),
              options.simulation.empty() ? "answering from memory" : "simulated", sampled / time,
              time);
  std::printf("sampling thread: %.3f %% of one core, %.1f us a round\n", 100 * used / time,
              1e6 * used / sampled);
  std::printf("of which at most %.3f %% the devices' own answers (%.2f us each)\n",
              100 * devices / time, 1e6 * reading);
  std::printf("a span of the past: %.2f us\n", 1e6 * span);
  // The time is meaningless if the result is wrong.
  for (const DeviceEnergy& device : result->devices) {
    if (options.simulation.empty()) {
      const double truth = 300 * result->time.value;
      if (std::abs(device.energy.energy.value - truth) >
          device.energy.error.value + 0.001 * truth) {
        std::printf("WRONG: %s %.3f J, truth %.3f J\n", device.label().c_str(),
                    device.energy.energy.value, truth);
        return 1;
      }
    }
  }
  return sampled / time > 0.9 * kRate ? 0 : 1;
}

}  // namespace
}  // namespace harpe::device

int main(int argc, char** argv) {
  return harpe::device::run(argc, argv);
}
