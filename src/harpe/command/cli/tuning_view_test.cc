// The final report of `harpe run --optimize`.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harpe/command/cli/run_report.h"
#include "harpe/zeus/power_limit/power_limits_testing.h"
#include "harpe/zeus/tuning/tuning_json.h"

namespace harpe::command {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

zeus::TuningReport tuned() {
  zeus::TuningReport report;
  report.selector = {.kind = zeus::Selector::Kind::kEnergy, .most_slowdown = 1.03};
  report.result.knob = zeus::Knob::make(zeus::KnobKind::kGraphicsClock, {1740, 1605, 1500}).take();
  report.result.steps = 300;
  report.result.choice = 1;
  report.result.decided = true;
  report.result.profilings = 1;
  report.result.costs = {{40, {0.1}, {25}, {0.25}}, {200, {0.102}, {20}, {0.1}}, {}};
  report.result.steps_under = {60, 240, 0};
  report.result.saving = {{1200}, {70}, {7500}};
  return report;
}

std::string text(const zeus::TuningReport& report) {
  return tuning_text(report, 0, false);
}

TEST(TuningView, SaysWhatWasTriedChosenAndSaved) {
  const std::string said = text(tuned());
  EXPECT_THAT(said, HasSubstr("least energy, at most 3 % slower"));
  EXPECT_THAT(said, HasSubstr("60 steps  highest"));
  EXPECT_THAT(said, HasSubstr("240 steps  chosen"));
  EXPECT_THAT(said, Not(HasSubstr("1500 MHz")));
  EXPECT_THAT(said, HasSubstr("1605 MHz was chosen: the best of 2 measured settings"));
  EXPECT_THAT(said, HasSubstr("J saved (16.0 %)"));
  EXPECT_THAT(said, HasSubstr("takes 2.0 % longer"));
}

TEST(TuningView, ClaimsNoSavingWithinItsError) {
  zeus::TuningReport report = tuned();
  report.result.saving = {{50}, {70}, {7500}};
  EXPECT_THAT(text(report), HasSubstr("the saving cannot be distinguished from zero"));
  report.result.saving = {{-100}, {70}, {7500}};
  EXPECT_THAT(text(report), HasSubstr("MORE (1.3 %)"));
}

TEST(TuningView, SaysThatNothingWasMeasured) {
  zeus::TuningReport report = tuned();
  for (zeus::StepCost& cost : report.result.costs) cost.steps = 0;
  report.result.saving = {{0}, {0}, {7500}};
  EXPECT_THAT(text(report), HasSubstr("No setting was measured. 1605 MHz was kept."));
  EXPECT_THAT(text(report), HasSubstr("included: no saving."));
}

TEST(TuningView, SaysWhereTheCommandEndedTooEarly) {
  zeus::TuningReport report = tuned();
  report.result.decided = false;
  EXPECT_THAT(text(report), HasSubstr("No setting was chosen before the end"));
  report.result.choice.reset();
  EXPECT_THAT(text(report), HasSubstr("No setting was measured before the end"));
  report.result.steps = 0;
  EXPECT_THAT(text(report), HasSubstr("No step was recorded"));
}

TEST(TuningView, AdvisesWhereNothingWasSet) {
  zeus::TuningReport report = tuned();
  report.why_nothing_was_set = "no agent listens";
  report.could_be = zeus::power_limits({200}, {300});
  report.advice = zeus::Advice{.setting = 2, .slowdown = 0.02, .saving = 0.15};
  const std::string said = text(report);
  EXPECT_THAT(said, HasSubstr("Nothing was set: no agent listens"));
  EXPECT_THAT(said, HasSubstr("predicts for 250 W about 15 % less energy"));
  EXPECT_THAT(said, HasSubstr("harpe limit set 250W"));
  EXPECT_THAT(said, Not(HasSubstr("saved")));
  const nlohmann::ordered_json json = zeus::tuning_json(report);
  EXPECT_EQ(json["why_nothing_was_set"], "no agent listens");
  EXPECT_TRUE(json["choice"].is_null() && json["slowdown"].is_null());
  EXPECT_EQ(json["advice"]["power_limit_w"], 250);
}

TEST(TuningView, JsonHasTheSame) {
  const nlohmann::ordered_json json = zeus::tuning_json(tuned());
  EXPECT_EQ(json["knob"], "clock_mhz");
  EXPECT_EQ(json["choice"], 1605);
  EXPECT_EQ(json["settings"].size(), 2U);
  EXPECT_EQ(json["settings"][1]["steps"], 240);
  EXPECT_NEAR(json["slowdown"].get<double>(), 0.02, 1e-9);
  EXPECT_EQ(json["saved_j"], 1200);
  EXPECT_TRUE(json["advice"].is_null() && json["failure"].is_null());
}

}  // namespace
}  // namespace harpe::command
