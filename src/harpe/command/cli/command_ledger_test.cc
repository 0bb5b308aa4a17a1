#include <gtest/gtest.h>

#include "harpe/command/cli/command_meter.h"
#include "harpe/command/cli/measure_output.h"

namespace harpe::command {
namespace {

using namespace harpe::literals;

constexpr double kBegan = 1'795'575'900;  // a multiple of 300 s

WindowEnergy window_of(Seconds time, Joules gpu, Joules cpu, double started_at = kBegan) {
  const auto device = [time](DeviceEnergy::Kind kind, Joules energy) {
    DeviceEnergy one;
    one.kind = kind;
    one.energy = {.energy = energy,
                  .error = 3_J,
                  .sensor_error = energy * 0.05,
                  .time = time,
                  .source = EnergySource::kCounter};
    return one;
  };
  WindowEnergy window;
  window.started_at = started_at;
  window.time = time;
  window.devices = {device(DeviceEnergy::Kind::kGpu, gpu), device(DeviceEnergy::Kind::kCpu, cpu)};
  return window;
}

TEST(CommandLedger, IsTheWholeInPartsByTheReadings) {
  const WindowEnergy whole = window_of(700_s, 9000_J, 1000_J, kBegan + 100);
  const std::vector<EnergySoFar> readings = {
      energy_so_far(window_of(200_s, 1000_J, 100_J)),   // at a boundary
      energy_so_far(window_of(500_s, 7000_J, 500_J))};  // at the next boundary
  const carbon::EnergyLedger ledger = command_ledger(readings, whole, carbon::whole_minutes(5));
  ASSERT_EQ(ledger.size(), 3U);
  const auto start = static_cast<std::int64_t>(kBegan);
  EXPECT_NEAR(ledger.uses().at(carbon::UtcTime{start}).energy.value, 1100, 1e-6);
  EXPECT_NEAR(ledger.uses().at(carbon::UtcTime{start + 300}).energy.value, 6400, 1e-6);
  EXPECT_NEAR(ledger.uses().at(carbon::UtcTime{start + 600}).energy.value, 2500, 1e-6);
  const carbon::EnergyUse total = ledger.total();
  const EnergyEstimate estimate = total_of(whole);
  EXPECT_NEAR(total.energy.value, estimate.energy.value, 1e-9);
  EXPECT_NEAR(total.host.value, 1000, 1e-9);
  EXPECT_NEAR(total.half_width().value, estimate.error.value, 1e-9);
  EXPECT_NEAR(total.sensor_error.value, estimate.sensor_error.value, 1e-9);
  EXPECT_NEAR(total.device_time.value, 700, 1e-9);
  EXPECT_EQ(total.unmeasured().value, 0);
  EXPECT_EQ(total.without_error.value, 0);
}

TEST(CommandLedger, NeedsNoReadings) {
  const WindowEnergy whole = window_of(900_s, 900_J, 0_J);
  const carbon::EnergyLedger ledger = command_ledger({}, whole, carbon::whole_minutes(5));
  ASSERT_EQ(ledger.size(), 3U);
  for (const auto& [start, use] : ledger.uses()) EXPECT_NEAR(use.energy.value, 300, 1e-6);
}

TEST(CommandLedger, KeepsTheWholeWhereReadingsSayMore) {
  const WindowEnergy whole = window_of(700_s, 1000_J, 0_J);
  const std::vector<EnergySoFar> readings = {{.after = 300_s, .energy = 1200_J, .host = {}},
                                             {.after = 600_s, .energy = 900_J, .host = {}}};
  const carbon::EnergyLedger ledger = command_ledger(readings, whole, carbon::whole_minutes(5));
  EXPECT_NEAR(ledger.total().energy.value, 1000, 1e-9);
  for (const auto& [start, use] : ledger.uses()) EXPECT_TRUE(use.sound());
}

TEST(CommandLedger, SaysWhatWasNotMeasured) {
  WindowEnergy whole = window_of(100_s, 1000_J, 0_J);
  DeviceEnergy lost = whole.devices[0];
  lost.energy = {};
  lost.error = Error::of(ErrorCode::kUnavailable, "lost");
  whole.devices.push_back(lost);
  whole.devices[0].energy.missing = 25_s;
  const carbon::EnergyUse total = command_ledger({}, whole, carbon::whole_minutes(5)).total();
  EXPECT_NEAR(total.device_time.value, 200, 1e-9);
  EXPECT_NEAR(total.unmeasured().value, 125, 1e-9);
  EXPECT_NEAR(total.without_error.value, 1000, 1e-9) << "at least so much";
}

TEST(NextBoundary, IsOnTheGridAndLater) {
  EXPECT_EQ(next_boundary(kBegan, carbon::whole_minutes(5)), kBegan + 300);
  EXPECT_EQ(next_boundary(kBegan + 299.5, carbon::whole_minutes(5)), kBegan + 300);
}

}  // namespace
}  // namespace harpe::command
