#include "harpe/command/cli/command_meter.h"

#include <gtest/gtest.h>

#include "harpe/device/hw/system_clock.h"

namespace harpe::command {
namespace {

CommandMeter meter_without_devices() {
  return {{}, {}, system_clock(), "command", carbon::whole_minutes(5)};
}

TEST(CommandMeter, StopsMoreThanOnceWithTheSameResult) {
  CommandMeter meter = meter_without_devices();
  meter.prepare(Seconds{1});
  meter.begin();
  meter.end();
  const auto used = meter.used(Seconds{10}, [] { return false; });
  ASSERT_TRUE(used.has_value());
  EXPECT_TRUE(meter.stop());
  EXPECT_TRUE(meter.stop());
}

TEST(CommandMeter, StopsWithoutHavingMeasured) {
  CommandMeter meter = meter_without_devices();
  EXPECT_TRUE(meter.stop());
}

}  // namespace
}  // namespace harpe::command
