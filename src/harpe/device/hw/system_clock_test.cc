// The time of day at an instant of the machine's clock, read by a thread that is interrupted.

#include "harpe/device/hw/system_clock.h"

#include <gtest/gtest.h>

namespace harpe::device {
namespace {

constexpr double kTimeOfDay = 1'764'332'000;  // when the played clock is at 0
constexpr Seconds kReading{1e-6};

/// Time that passes only when clocks are read: a microsecond per reading, and longer for the
/// readings before which the thread is interrupted.
class PlayedTime final : public Clock {
 public:
  PlayedTime(int first_late, int late, Seconds interruption)
      : first_late_(first_late), late_(late), interruption_(interruption) {}

  Instant now() const override { return read(); }
  void sleep_until(Instant) override {}
  double time_of_day() const { return kTimeOfDay + (read() - Instant{}).value; }
  int readings() const { return readings_; }

 private:
  Instant read() const {
    const bool is_late = readings_ >= first_late_ && readings_ < first_late_ + late_;
    time_ = time_ + (is_late ? interruption_ : kReading);
    readings_ += 1;
    return time_;
  }

  int first_late_, late_;
  Seconds interruption_;
  mutable Instant time_{};
  mutable int readings_ = 0;
};

TEST(TimeOfDay, IsRightWhereverTheThreadIsInterrupted) {
  const Instant at{123'456'789};
  for (int first_late = 0; first_late < 6; ++first_late) {
    for (const int late : {0, 1, 2, 5}) {
      const PlayedTime time(first_late, late, Seconds{0.12});
      const double found = time_of_day_at(at, time, [&] { return time.time_of_day(); });
      EXPECT_NEAR(found, kTimeOfDay + 0.123456789, 2e-6) << first_late << ", " << late;
    }
  }
}

TEST(TimeOfDay, IsTheClosestPairOfReadingsWhereAllAreLate) {
  const PlayedTime time(0, 1'000'000, Seconds{0.12});
  const double found = time_of_day_at(Instant{}, time, [&] { return time.time_of_day(); });
  EXPECT_NEAR(found, kTimeOfDay, 1e-6) << "the middle of two readings";
  EXPECT_LE(time.readings(), 60);
}

TEST(TimeOfDay, OfTheMachineAgreesWithItsClock) {
  const double first = time_of_day_at(Instant{}, system_clock());
  const double second = time_of_day_at(Instant{}, system_clock());
  EXPECT_NEAR(first, second, 1) << "unless the clock is set in between";
}

}  // namespace
}  // namespace harpe::device
