// Windows drawn from finished recordings of a signal with known energy.

#include "harpe/device/measure/recorded_windows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "harpe/device/measure/test_signal.h"

namespace harpe::device {
namespace {

constexpr double kBetweenReadings = 0.001, kCallTime = 0.0001;  // s, of the recording
constexpr double kRecorded = 40;                                // s

SensorRecording recording_of(const Signal& signal, SensorModel model, std::mt19937_64& random) {
  Sensor sensor(signal, model, random);
  SensorRecording recording;
  for (int i = 0; i * kBetweenReadings < kRecorded; ++i) {
    const double time = i * kBetweenReadings;
    const EnergySample sample = sensor.look(time);
    const RecordedReading reading{.begin = Sensor::instant(time - kCallTime / 2),
                                  .end = Sensor::instant(time + kCallTime / 2)};
    recording.counter.push_back(reading);
    recording.counter.back().value = sample.counter.value_or(Joules{0}).value;
    recording.power.push_back(reading);
    recording.power.back().value = sample.power.value_or(Watts{0}).value;
  }
  return recording;
}

TEST(RecordedWindows, HoldTheTruthOfASignal) {
  constexpr std::uint64_t kSeedOfWindows = 20261128;
  constexpr int kDrawn = 200;
  constexpr double kLeastHeld = 0.93;
  std::mt19937_64 random(kSeedOfWindows);
  const Signal signal = make_signal(SignalKind::kTraining, kRecorded + 10, random);
  const SensorRecording recording = recording_of(signal, {.measuring = 0.1}, random);
  std::uniform_real_distribution<double> begin(5, 25), length(0.5, 8);
  std::vector<TimeSpan> windows;
  std::vector<double> truth;
  for (int i = 0; i < kDrawn; ++i) {
    const double from = begin(random), to = from + length(random);
    windows.push_back({Sensor::instant(from), Sensor::instant(to)});
    truth.push_back(signal.energy(to) - signal.energy(from));
  }
  for (const bool settles : {true, false}) {
    const auto estimates = measure_recorded(recording, windows, {.settles = settles});
    ASSERT_TRUE(estimates.ok()) << estimates.error().text();
    int held = 0;
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const EnergyEstimate& one = (*estimates)[i];
      EXPECT_EQ(one.source, EnergySource::kCounterAndPower);
      held += std::abs(one.energy.value - truth[i]) <= one.error.value ? 1 : 0;
    }
    EXPECT_GE(held, kLeastHeld * kDrawn) << "settles: " << settles;
  }
}

TEST(RecordedWindows, AreTheSameForTheSameSeed) {
  std::mt19937_64 random(1);
  const Signal signal = make_signal(SignalKind::kWander, kRecorded, random);
  const SensorRecording recording = recording_of(signal, {}, random);
  const TimeSpan windows[] = {{Sensor::instant(10), Sensor::instant(11)},
                              {Sensor::instant(12.3), Sensor::instant(12.9)}};
  const auto first = measure_recorded(recording, windows, {.seed = 5});
  const auto second = measure_recorded(recording, windows, {.seed = 5});
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_DOUBLE_EQ((*first)[i].energy.value, (*second)[i].energy.value);
    EXPECT_DOUBLE_EQ((*first)[i].error.value, (*second)[i].error.value);
  }
}

TEST(RecordedWindows, OfAGpuWithoutACounterAreByPower) {
  std::mt19937_64 random(1);
  const Signal signal = make_signal(SignalKind::kConstant, kRecorded, random);
  SensorRecording recording = recording_of(signal, {.power_scale = 1, .power_noise = 0}, random);
  recording.counter.clear();
  const TimeSpan window[] = {{Sensor::instant(10), Sensor::instant(12)}};
  const auto instant = measure_recorded(recording, window, {});
  EXPECT_EQ(instant->front().source, EnergySource::kPower);
  EXPECT_NEAR(instant->front().energy.value, 600, 1);
  recording.power_is_average = true;
  EXPECT_EQ(measure_recorded(recording, window, {})->front().source, EnergySource::kAveragePower);
}

TEST(RecordedWindows, BehindTheEndOfTheRecordingMissTheRest) {
  std::mt19937_64 random(1);
  const Signal signal = make_signal(SignalKind::kConstant, kRecorded + 10, random);
  const SensorRecording recording = recording_of(signal, {}, random);
  const TimeSpan windows[] = {{Sensor::instant(kRecorded - 1), Sensor::instant(kRecorded + 2)},
                              {Sensor::instant(kRecorded + 5), Sensor::instant(kRecorded + 6)}};
  const auto estimates = measure_recorded(recording, windows, {});
  EXPECT_NEAR((*estimates)[0].missing.value, 2, 0.1);
  EXPECT_EQ((*estimates)[1].source, EnergySource::kNone);
}

TEST(RecordedWindows, AreRefusedWhereTimesAreOutOfOrder) {
  SensorRecording recording;
  recording.counter = {{Sensor::instant(2), Sensor::instant(2.1), 0},
                       {Sensor::instant(1), Sensor::instant(1.1), 0}};
  const auto estimates = measure_recorded(recording, {}, {});
  ASSERT_FALSE(estimates.ok());
  EXPECT_EQ(estimates.error().text(), "reading 1 of the energy counter is not in order of time");
  recording.counter.pop_back();
  const TimeSpan backwards[] = {{Sensor::instant(2), Sensor::instant(1)}};
  EXPECT_EQ(measure_recorded(recording, backwards, {}).error().text(),
            "window 1 ends before it begins");
}

}  // namespace
}  // namespace harpe::device
