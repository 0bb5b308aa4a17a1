#include "harpe/training/server/service_clock.h"

#include <gtest/gtest.h>

namespace harpe::training {
namespace {

/// A machine whose clocks the test sets.
struct Machine {
  double boot_time = 1000, wall = 1.8e9;
  std::string boot = "first";

  ServiceClock clock(const std::optional<ClockMark>& kept = {}) {
    return ServiceClock(
        {.boot_time = [this] { return boot_time; }, .wall = [this] { return wall; }, .boot = boot},
        kept);
  }
  void pass(double seconds) { boot_time += seconds, wall += seconds; }
};

TEST(ServiceClock, BeginsAsSecondsSince1970AndFollowsNoStepOfTheWallClock) {
  Machine machine;
  const ServiceClock clock = machine.clock();
  EXPECT_DOUBLE_EQ(clock.now().value, 1.8e9);
  machine.pass(60);
  machine.wall -= 86'400;
  EXPECT_DOUBLE_EQ(clock.now().value, 1.8e9 + 60);
  machine.wall += 1e9;
  EXPECT_DOUBLE_EQ(clock.now().value, 1.8e9 + 60);
}

TEST(ServiceClock, GoesOnOverARestartOfTheServerWhateverTheWallClockDid) {
  Machine machine;
  const ClockMark mark = machine.clock().mark();
  machine.pass(10);
  machine.wall += 1e9;
  EXPECT_DOUBLE_EQ(machine.clock(mark).now().value, 1.8e9 + 10);
}

TEST(ServiceClock, BelievesTheWallClockOverABootUpToADay) {
  Machine machine;
  const ClockMark mark = machine.clock().mark();
  machine.boot = "second";
  machine.boot_time = 5;
  machine.wall += 600;
  EXPECT_DOUBLE_EQ(machine.clock(mark).now().value, 1.8e9 + 600);
  machine.wall += 1e9;  // its battery was empty, or it found a wrong time server
  EXPECT_DOUBLE_EQ(machine.clock(mark).now().value, 1.8e9 + ServiceClock::kMostBelieved.value);
  machine.wall = 0;
  EXPECT_DOUBLE_EQ(machine.clock(mark).now().value, 1.8e9);
}

TEST(ServiceClock, ShowsTimesAsTheWallClockTellsThemNow) {
  Machine machine;
  const ServiceClock clock = machine.clock();
  const Seconds in_a_minute = clock.now() + Seconds{60};
  machine.wall += 3600;
  EXPECT_DOUBLE_EQ(clock.shown(in_a_minute).value, 1.8e9 + 3660);
  EXPECT_NEAR(clock.meant(clock.shown(in_a_minute)).value, in_a_minute.value, 1e-3);
}

TEST(ServiceClock, OfThisMachineRises) {
  const ServiceClock clock(MachineClocks::system());
  const Seconds before = clock.now();
  EXPECT_FALSE(MachineClocks::system().boot.empty());
  EXPECT_NEAR(before.value, clock.wall().value, 1);
  EXPECT_GE(clock.now(), before);
}

}  // namespace
}  // namespace harpe::training
