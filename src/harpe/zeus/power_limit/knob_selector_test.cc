// Ordered settings, and the choice among measured settings.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

#include "harpe/zeus/power_limit/knob.h"
#include "harpe/zeus/power_limit/selector.h"

namespace harpe::zeus {
namespace {

using Kind = Selector::Kind;
const double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Knob, RefusesSettingsOutOfOrderAndNoNumbers) {
  EXPECT_FALSE(Knob::make(KnobKind::kPowerLimit, {200, 300}).ok());
  EXPECT_FALSE(Knob::make(KnobKind::kPowerLimit, {200, 200}).ok());
  EXPECT_FALSE(Knob::make(KnobKind::kPowerLimit, {kNan}).ok());
  EXPECT_FALSE(Knob::make(KnobKind::kPowerLimit, {0}).ok());
  std::vector<double> many(10'001);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(many.size() - i);
  EXPECT_FALSE(Knob::make(KnobKind::kPowerLimit, many).ok());
}

TEST(Knob, NamesASettingWithItsUnit) {
  EXPECT_EQ(Knob::make(KnobKind::kPowerLimit, {300, 275}).take().text(1), "275 W");
  EXPECT_EQ(Knob::make(KnobKind::kGraphicsClock, {1410}).take().text(0), "1410 MHz");
}

constexpr std::array<Measurement, 4> kMeasured = {
    {{300, {10}, {2800}}, {250, {10.5}, {2500}}, {200, {12}, {2300}}, {150, {18}, {2600}}}};

double chosen(const Selector& selector) {
  return kMeasured[choose(kMeasured, selector).value()].setting;
}

TEST(Selector, ChoosesByEnergyTimeCostAndSlowdown) {
  EXPECT_EQ(chosen({.kind = Kind::kEnergy}), 200);
  EXPECT_EQ(chosen({.kind = Kind::kTime}), 300);
  EXPECT_EQ(chosen({.eta = 0}), 300);
  EXPECT_EQ(chosen({.eta = 0.5}), 250);
  EXPECT_EQ(chosen({.eta = 1}), 200);
  EXPECT_EQ(chosen({.kind = Kind::kMaxSlowdown, .slowdown = 1}), 300);
  EXPECT_EQ(chosen({.kind = Kind::kMaxSlowdown, .slowdown = 1.2}), 200);
  EXPECT_EQ(chosen({.kind = Kind::kMaxSlowdown, .slowdown = 9}), 150);
}

TEST(Selector, ABoundKeepsWhatIsSlowerOut) {
  EXPECT_EQ(chosen({.kind = Kind::kEnergy, .most_slowdown = 1.2}), 200);
  EXPECT_EQ(chosen({.kind = Kind::kEnergy, .most_slowdown = 1.19}), 250);
  EXPECT_EQ(chosen({.kind = Kind::kEnergy, .most_slowdown = 1.04}), 300);
  EXPECT_EQ(chosen({.eta = 1, .most_slowdown = 1.05}), 250);
}

TEST(Selector, TiesGoToTheHigherSetting) {
  const std::vector<Measurement> equal = {{300, {10}, {2000}}, {200, {10}, {2000}}};
  EXPECT_EQ(choose(equal, {}).value(), 0U);
}

TEST(Selector, TheHostsPowerMakesTimeCountMore) {
  EXPECT_EQ(chosen({.kind = Kind::kEnergy, .host_power = {500}}), 250);
  EXPECT_EQ(chosen({.eta = 1, .host_power = {500}}), 250);
}

TEST(Selector, RefusesWrongInput) {
  EXPECT_FALSE(choose(kMeasured, {.eta = 1.01}).ok());
  EXPECT_FALSE(choose(kMeasured, {.eta = kNan}).ok());
  EXPECT_FALSE(choose(kMeasured, {.slowdown = 0.9}).ok());
  EXPECT_FALSE(choose(kMeasured, {.slowdown = kNan}).ok());
  EXPECT_FALSE(choose(kMeasured, {.most_slowdown = 0.9}).ok());
  EXPECT_FALSE(choose(kMeasured, {.gpus = 0}).ok());
  EXPECT_FALSE(choose(kMeasured, {.host_power = {kNan}}).ok());
  EXPECT_FALSE(choose({}, {}).ok());
  EXPECT_FALSE(choose(std::vector<Measurement>{{300, {kNan}, {1}}}, {}).ok());
  EXPECT_FALSE(choose(std::vector<Measurement>{{200, {1}, {1}}, {300, {1}, {1}}}, {}).ok());
}

}  // namespace
}  // namespace harpe::zeus
