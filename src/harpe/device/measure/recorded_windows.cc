#include "harpe/device/measure/recorded_windows.h"

#include <algorithm>
#include <random>
#include <string>

namespace harpe::device {
namespace {

// Sampling of a GPU as by `harpe run`: docs/measuring.md.
constexpr double kReadingsPerSecond = 50, kSpreadOfMoments = 0.25;
constexpr Seconds kLongestReading{5};

/// A GPU with the readings of a recording. A call advances the clock to the end of the first
/// reading that began now or later, and returns its value.
class RecordedGpu final : public Gpu {
 public:
  RecordedGpu(const SensorRecording& recording, ManualClock& clock)
      : recording_(&recording), clock_(&clock) {
    identity_.name = "recorded GPU";
    identity_.backend = "recording";
  }

  const GpuIdentity& identity() const override { return identity_; }
  Result<Joules> total_energy() override {
    return Joules{HARPE_TRY(read(recording_->counter, "energy counter"))};
  }
  Result<Watts> instant_power() override {
    if (recording_->power_is_average) return not_supported("instant power");
    return Watts{HARPE_TRY(read(recording_->power, "instant power"))};
  }
  Result<Watts> average_power() override {
    if (!recording_->power_is_average) return not_supported("average power");
    return Watts{HARPE_TRY(read(recording_->power, "average power"))};
  }
  Result<PowerLimitRange> power_limit_range() override {
    if (recording_->highest_power.value <= 0) return not_supported("power limits");
    return PowerLimitRange{
        .lowest = {0}, .highest = recording_->highest_power, .factory = recording_->highest_power};
  }

 private:
  Result<double> read(const std::vector<RecordedReading>& readings, const std::string& what) {
    if (readings.empty()) return not_supported(what);
    const auto found =
        std::ranges::lower_bound(readings, clock_->now(), {}, &RecordedReading::begin);
    if (found == readings.end())
      return Error::of(ErrorCode::kUnavailable, "the recording of the " + what + " has ended");
    clock_->sleep_until(found->end);
    return found->value;
  }

  GpuIdentity identity_;
  const SensorRecording* recording_;
  ManualClock* clock_;
};

Status check(const std::vector<RecordedReading>& readings, const std::string& what) {
  const auto wrong = std::ranges::adjacent_find(readings, [](const auto& one, const auto& next) {
    return one.end < one.begin || next.begin < one.end;
  });
  if (wrong == readings.end()) return ok_status();
  return Error::invalid("reading " + std::to_string(wrong - readings.begin() + 1) + " of the " +
                        what + " is not in order of time");
}

Result<EnergyEstimate> measure_one(const SensorRecording& recording, TimeSpan window,
                                   const RecordedWindowOptions& options, std::uint64_t seed) {
  ManualClock clock(window.begin + options.lead * -1);
  RecordedGpu gpu(recording, clock);
  Gpu* one[] = {&gpu};
  const auto monitor = HARPE_TRY(EnergyMonitor::start(
      one, {}, {.rate = kReadingsPerSecond, .sampling_threads = false}, clock));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> spread(1 - kSpreadOfMoments, 1 + kSpreadOfMoments);
  const auto poll_until = [&](Instant until) {
    for (Instant next = clock.now(); next < until;) {
      clock.sleep_until(next);
      monitor->poll();
      next = std::max(next + Seconds{spread(random) / kReadingsPerSecond}, clock.now());
    }
    clock.sleep_until(until);
  };
  HARPE_TRY(monitor->begin("before"));
  poll_until(window.begin);
  HARPE_TRY(monitor->begin("window", false, window.begin));
  HARPE_TRY(monitor->cancel("before"));
  poll_until(window.end);
  const Instant latest = window.end + kLongestReading;
  while (options.settles && !monitor->settled(window.end) && clock.now() < latest)
    poll_until(clock.now() + Seconds{spread(random) / kReadingsPerSecond});
  return HARPE_TRY(monitor->end("window", window.end)).devices.front().energy;
}

}  // namespace

Result<std::vector<EnergyEstimate>> measure_recorded(const SensorRecording& recording,
                                                     std::span<const TimeSpan> windows,
                                                     const RecordedWindowOptions& options) {
  HARPE_TRY(check(recording.counter, "energy counter"));
  HARPE_TRY(check(recording.power, "power sensor"));
  std::vector<EnergyEstimate> estimates;
  estimates.reserve(windows.size());
  for (const TimeSpan& window : windows) {
    if (window.end < window.begin)
      return Error::invalid("window " + std::to_string(estimates.size() + 1) +
                            " ends before it begins");
    estimates.push_back(
        HARPE_TRY(measure_one(recording, window, options, options.seed + estimates.size())));
  }
  return estimates;
}

}  // namespace harpe::device
