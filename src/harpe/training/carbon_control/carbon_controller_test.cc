#include "harpe/training/carbon_control/carbon_controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "harpe/training/carbon_control/carbon_controller_testing.h"

namespace harpe::training {
namespace {

using Mode = CarbonDecision::Mode;
using ::testing::HasSubstr;

std::vector<double> swinging() {
  std::vector<double> hours;
  for (int i = 0; i < 24; ++i) hours.push_back(300 + 200 * std::sin(i * 3.14159265 / 12));
  return hours;
}

CarbonTerms terms_of(double hours, double factor, bool pauses) {
  CarbonTerms terms;
  terms.iterations = static_cast<std::int64_t>(hours * 360);  // at 10 s each
  terms.deadline_factor = factor;
  if (pauses) terms.pause = CarbonPause{.idle_power = Watts{0}};
  return terms;
}

double lose_nothing(double) {
  return 0;
}

ControlledJob job_at(double hours, double done) {
  return {.now = Seconds{kControlStart + hours * 3600},
          .even = Seconds{hours * 3600},
          .done = done,
          .paces = paces_testing()};
}

TEST(CarbonController, SavesOverTheBestStaticPaceAndIsInTime) {
  for (const bool pauses : {false, true}) {
    const PlayedControl played = play_testing(terms_of(16, 1.5, pauses), swinging(), lose_nothing);
    EXPECT_LE(played.finished, 24.0);
    EXPECT_EQ(played.pauses > 0, pauses);
    EXPECT_LT(played.grams, best_static(swinging(), 16, 24) * (pauses ? 0.9 : 0.998));
  }
}

TEST(CarbonController, PacesWithTheGridAndSaysWhy) {
  ControlState state;
  CarbonController controller(terms_of(16, 1.3, false), state);
  const auto dirty = controller.decide(
      job_at(0, 0), reading_testing({500, 100, 100, 500}, Seconds{kControlStart}));
  EXPECT_EQ(dirty.mode, Mode::kPaced);
  EXPECT_EQ(dirty.why, "500 g/kWh");
  EXPECT_EQ(dirty.step, "provider");
  CarbonController other(terms_of(16, 1.3, false), state);
  const auto clean =
      other.decide(job_at(0, 0), reading_testing({100, 500, 500, 100}, Seconds{kControlStart}));
  EXPECT_LT(clean.iteration_time->value, dirty.iteration_time->value);
  EXPECT_NEAR(clean.deadline->value, kControlStart + 16 * 1.3 * 3600, 1e-3);
  EXPECT_EQ(clean.valid_until.value, kControlStart + 3600);
  ASSERT_TRUE(clean.gain().has_value());
  EXPECT_GT(*clean.gain(), 0);
}

TEST(CarbonController, TellsWhenAPauseEnds) {
  const std::vector<double> hours{600, 600, 600, 600, 600, 600, 50, 50, 50, 50, 50, 50};
  CarbonController controller(terms_of(4, 3, true), {});
  const auto pause =
      controller.decide(job_at(0, 0), reading_testing(hours, Seconds{kControlStart}));
  ASSERT_EQ(pause.mode, Mode::kPaused);
  EXPECT_FALSE(pause.iteration_time.has_value());
  EXPECT_GE(pause.resumes->value, kControlStart + 5.9 * 3600);
  EXPECT_LE(pause.resumes->value, kControlStart + 7.1 * 3600);
  EXPECT_TRUE(controller.state().is_paused);
  // A job that ignores pauses is not asked to pause again.
  ControlledJob job = job_at(1, 360);
  job.pauses_ignored = true;
  const auto paced = controller.decide(job, reading_testing(hours, Seconds{kControlStart + 3600}));
  EXPECT_NE(paced.mode, Mode::kPaused);
  EXPECT_TRUE(paced.iteration_time.has_value());
}

TEST(CarbonController, SaysThatNothingIsToBeGainedOnAFlatGrid) {
  CarbonController controller(terms_of(16, 1.5, true), {});
  const auto flat = controller.decide(job_at(0, 0), reading_testing({300}, Seconds{kControlStart}));
  EXPECT_EQ(flat.mode, Mode::kNothingToGain);
  EXPECT_THAT(flat.why, HasSubstr("nothing to gain"));
  ASSERT_TRUE(flat.gain().has_value());
  EXPECT_LT(*flat.gain(), CarbonController::kLeastGain);
  EXPECT_TRUE(flat.iteration_time.has_value());
}

TEST(CarbonController, SaysAtOnceWhatDeadlineIsImpossible) {
  CarbonTerms terms = terms_of(16, 1, true);
  terms.deadline_factor.reset();
  terms.deadline = carbon::UtcTime{static_cast<std::int64_t>(kControlStart) + 10 * 3600};
  CarbonController controller(terms, {});
  const auto late =
      controller.decide(job_at(0, 0), reading_testing(swinging(), Seconds{kControlStart}));
  EXPECT_EQ(late.mode, Mode::kFastest);
  EXPECT_FALSE(late.in_time);
  EXPECT_EQ(late.iteration_time->value, 10);
  EXPECT_NEAR(late.earliest->value, kControlStart + 16 * 3600, 1);
  EXPECT_THAT(late.why, HasSubstr("cannot be met"));
  EXPECT_THAT(late.why, HasSubstr(carbon::utc_text(
                            carbon::UtcTime{static_cast<std::int64_t>(late.earliest->value)})));
  // After the deadline is missed, the job continues at the fastest plan.
  const auto missed = controller.decide(
      job_at(12, 3600), reading_testing(swinging(), Seconds{kControlStart + 12 * 3600}));
  EXPECT_EQ(missed.mode, Mode::kFastest);
  EXPECT_EQ(missed.iteration_time->value, 10);
  EXPECT_GT(missed.valid_until, Seconds{kControlStart + 12 * 3600});
}

TEST(CarbonController, WithoutAForecastItRunsTheStaticPlanThatMeetsTheDeadline) {
  IntensityReading none;
  none.identity = {.provider = "uk"};
  none.trouble = "no route to host";
  const auto read = [&](Seconds) { return none; };
  const PlayedControl played =
      play_testing(terms_of(16, 1.3, true), swinging(), lose_nothing, read);
  EXPECT_LE(played.finished, 16 * 1.3);
  EXPECT_GT(played.finished, 16 * 1.1);
  EXPECT_EQ(played.pauses, 0);
  EXPECT_EQ(played.said.front().mode, Mode::kStatic);
  EXPECT_THAT(played.said.front().why, HasSubstr("no route to host"));
}

TEST(CarbonController, AForecastThatEndsInAPauseWakesTheJob) {
  const std::vector<double> hours{600, 600, 600, 600, 600, 600, 50, 50, 50, 50, 50, 50};
  const auto read = [&](Seconds now) {
    IntensityReading reading = reading_testing(hours, now);
    if (now.value > kControlStart + 2 * 3600) reading.forecast.reset();
    return reading;
  };
  const PlayedControl played = play_testing(terms_of(6, 2, true), hours, lose_nothing, read);
  EXPECT_EQ(played.said.front().mode, Mode::kPaused);
  EXPECT_EQ(played.said.back().mode, Mode::kStatic);
  EXPECT_LE(played.finished, 12);
}

TEST(CarbonController, KindsNeverMix) {
  CarbonController controller(terms_of(16, 1.5, false), {});
  IntensityReading reading = reading_testing(swinging(), Seconds{kControlStart});
  controller.decide(job_at(0, 0), reading);
  reading = reading_testing(swinging(), Seconds{kControlStart + 3600});
  reading.identity.kind = IntensityKind::kMarginal;
  reading.forecast->expected.kind = IntensityKind::kMarginal;
  const auto next = controller.decide(job_at(1, 300), reading);
  EXPECT_EQ(next.mode, Mode::kStatic);
  EXPECT_THAT(next.why, HasSubstr("kind"));
}

TEST(CarbonController, AClockThatJumpsDoesNoHarm) {
  const auto terms = terms_of(16, 1.5, true);
  CarbonController controller(terms, {});
  controller.decide(job_at(0, 0), reading_testing(swinging(), Seconds{kControlStart}));
  ControlledJob job = job_at(1, 350);
  job.now = Seconds{kControlStart - 1e8};
  auto back = controller.decide(job, reading_testing(swinging(), Seconds{kControlStart}));
  EXPECT_EQ(back.mode, Mode::kStatic);  // the forecast is for another time
  job = job_at(2, 700);
  job.now = Seconds{kControlStart + 1e9};
  const auto ahead = controller.decide(job, reading_testing(swinging(), Seconds{kControlStart}));
  EXPECT_EQ(ahead.mode, Mode::kFastest);
  // With the right time, control continues as before.
  const auto right = controller.decide(
      job_at(3, 1060), reading_testing(swinging(), Seconds{kControlStart + 3 * 3600}));
  EXPECT_NE(right.mode, Mode::kFastest);
  EXPECT_NE(right.mode, Mode::kStatic);
  for (const auto& one : controller.state().spread.intervals()) {
    EXPECT_LE(std::abs(one.lost), one.planned);
  }
}

TEST(CarbonController, IsDoneWhenAllIterationsAre) {
  CarbonController controller(terms_of(1, 1.5, true), {});
  const auto done =
      controller.decide(job_at(0, 360), reading_testing(swinging(), Seconds{kControlStart}));
  EXPECT_EQ(done.mode, Mode::kDone);
  EXPECT_FALSE(done.iteration_time.has_value());
}

TEST(CarbonController, DecisionsComeCloserTogetherNearTheDeadline) {
  const PlayedControl played = play_testing(terms_of(6, 1.5, false), swinging(), lose_nothing);
  const CarbonDecision& last = played.said.back();
  EXPECT_LT(*last.deadline - last.valid_until, Seconds{3600});
  EXPECT_GT(played.decisions, 9);
  EXPECT_LT(played.decisions, 60);
}

TEST(CarbonController, TheGuardKeepsNearTheStaticJobWhateverIsForecast) {
  // Forecasts that always promise the cleanest hour next, which never comes.
  const std::vector<double> hours{300, 310, 320, 330, 340, 350};
  const auto read = [&](Seconds now) {
    IntensityReading reading = reading_testing(hours, now);
    auto& values = reading.forecast->expected.values;
    for (std::size_t i = 1; i < values.size(); ++i) values[i] = 250;
    return reading;
  };
  CarbonTerms terms = terms_of(8, 2, true);
  const double unguarded = play_testing(terms, hours, lose_nothing, read).grams;
  terms.guard = 0.02;
  const double guarded = play_testing(terms, hours, lose_nothing, read).grams;
  EXPECT_LE(guarded, unguarded * 1.0001);
  EXPECT_LE(guarded, best_static(hours, 8, 16) * 1.05);
}

}  // namespace
}  // namespace harpe::training
