// Control of jobs of unknown length. With any forecast and any loss, a job is never behind by more
// than its slack for long, and emits less than at a steady pace.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "harpe/training/carbon_control/carbon_controller_testing.h"

namespace harpe::training {
namespace {

using Mode = CarbonDecision::Mode;
using ::testing::HasSubstr;

constexpr double kHour = 3600;
constexpr unsigned kOpenEndedSeed = 4711;

std::vector<double> swinging(double swing) {
  std::vector<double> hours;
  for (int i = 0; i < 24; ++i) hours.push_back(300 + swing * std::sin(i * 3.14159265 / 12));
  return hours;
}

CarbonTerms open_ended_terms(double factor, double slack_hours, bool pauses) {
  CarbonTerms terms;
  terms.slack = Seconds{slack_hours * kHour};
  terms.deadline_factor = factor;
  if (pauses) terms.pause = CarbonPause{.idle_power = Watts{0}};
  return terms;
}

std::int64_t iterations_of(double hours) {
  return static_cast<std::int64_t>(hours * 360);  // at 10 s each
}

double open_ended_loss(double) {
  return 0;
}

/// Returns the most hours by which a decision was behind beyond the slack; negative if never.
double most_beyond(const PlayedControl& played, const CarbonTerms& terms) {
  double most = -1e9;
  for (const CarbonDecision& one : played.said) {
    if (one.behind) most = std::max(most, (*one.behind - *terms.slack).value / kHour);
  }
  return most;
}

TEST(OpenEndedControl, IsNeverFurtherBehindThanItsSlackWhateverIsForecast) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() % 1'000'001) / 1e6;
  };
  for (int round = 0; round < 8; ++round) {
    const CarbonTerms terms = open_ended_terms(uniform(1.05, 1.8), uniform(0, 20), round % 4 != 0);
    std::vector<double> hours;
    for (int i = 0; i < 48; ++i) hours.push_back(uniform(20, 500));
    const auto wrong = [&](Seconds now) {
      IntensityReading reading = reading_testing(hours, now);
      for (double& value : reading.forecast->expected.values) value = 520 - value;
      return reading;
    };
    const double work = uniform(5, 40);
    const PlayedControl played =
        play_testing(terms, hours, open_ended_loss, wrong, iterations_of(work));
    EXPECT_LE(most_beyond(played, terms), 1e-3);
    EXPECT_LE(played.finished, work * *terms.deadline_factor + terms.slack->value / kHour + 1e-3);
    for (const CarbonDecision& one : played.said) EXPECT_NE(one.mode, Mode::kFastest);
  }
}

TEST(OpenEndedControl, ComesBackWithinItsSlackFromWhatItLoses) {
  SCOPED_TRACE(kOpenEndedSeed);
  std::mt19937_64 random(kOpenEndedSeed);
  int decisions = 0, beyond = 0;
  for (int job = 0; job < 16; ++job) {
    const CarbonTerms terms = open_ended_terms(1.5, 6, job % 2 == 0);
    std::vector<double> hours = swinging(200);
    std::rotate(hours.begin(), hours.begin() + job % 24, hours.end());
    const auto restarts = [&](double run) {
      std::bernoulli_distribution fails(0.03 * std::min(1.0, run / kHour));
      return fails(random) ? std::min(run, 900.0) : 0.01 * run;
    };
    const PlayedControl played = play_testing(terms, hours, restarts, {}, iterations_of(16));
    for (const CarbonDecision& one : played.said) {
      ++decisions;
      beyond += one.behind && *one.behind > *terms.slack ? 1 : 0;
    }
    EXPECT_LE(most_beyond(played, terms), 0.5);
  }
  RecordProperty("decisions", decisions);
  RecordProperty("beyond", beyond);
  EXPECT_LE(beyond, 0.05 * decisions);
}

TEST(OpenEndedControl, EmitsLessThanTheBestSteadyPaceOfItsFactor) {
  const double work = 48, factor = 1.3;
  for (const bool pauses : {false, true}) {
    const PlayedControl played = play_testing(open_ended_terms(factor, 12, pauses), swinging(200),
                                              open_ended_loss, {}, iterations_of(work));
    EXPECT_EQ(played.pauses > 0, pauses);
    EXPECT_LT(played.grams,
              best_static(swinging(200), work, work * factor) * (pauses ? 0.9 : 0.95));
  }
}

TEST(OpenEndedControl, SaysHowFarBehindItIsAndHasNoDeadline) {
  CarbonController controller(open_ended_terms(1.5, 12, true), {});
  std::vector<double> hours = swinging(200);
  std::rotate(hours.begin(), hours.begin() + 5, hours.end());  // the dirtiest hours first
  const auto dirty = controller.decide({.now = Seconds{kControlStart}, .paces = paces_testing()},
                                       reading_testing(hours, Seconds{kControlStart}));
  EXPECT_EQ(dirty.mode, Mode::kPaused);
  EXPECT_FALSE(dirty.deadline || dirty.finish || dirty.earliest);
  EXPECT_EQ(dirty.behind, Seconds{0});
  EXPECT_GT(dirty.gain().value_or(0), 0.02);
  // Training that was allowed to run, but made no progress for 20 h.
  ControlState state = controller.state();
  state.elapsed = Seconds{20 * kHour};
  CarbonController late(open_ended_terms(1.5, 12, true), state);
  const auto fastest = late.decide(
      {.now = Seconds{kControlStart + 3600}, .even = Seconds{3600}, .paces = paces_testing()},
      reading_testing(swinging(200), Seconds{kControlStart + 3600}));
  EXPECT_EQ(fastest.mode, Mode::kFastest);
  EXPECT_EQ(fastest.iteration_time, Seconds{10});
  EXPECT_FALSE(fastest.in_time);
  EXPECT_THAT(fastest.why, HasSubstr("21 h behind, of 12 h"));
}

TEST(OpenEndedControl, DoesNotMakeUpForWhatControlDidNotPutOff) {
  CarbonController controller(open_ended_terms(1.25, 2, false), {});
  controller.decide({.now = Seconds{kControlStart}, .paces = paces_testing()},
                    reading_testing({300}, Seconds{kControlStart}));
  const auto read = parse_control_state(control_state_json(controller.state()));
  ASSERT_TRUE(read.ok());
  // Two days later, after the server was down. Training has continued, or not.
  for (const double done : {0.0, 15'000.0}) {
    CarbonController again(open_ended_terms(1.25, 2, false), *read);
    const Seconds later{kControlStart + 48 * kHour};
    const auto next = again.decide(
        {.now = later, .even = Seconds{48 * kHour}, .done = done, .paces = paces_testing()},
        reading_testing({300}, later));
    ASSERT_TRUE(next.behind.has_value());
    EXPECT_LE(next.behind->value, kHour);
    EXPECT_GE(next.behind->value, -0.25 * kHour - 1);
    EXPECT_NE(next.mode, Mode::kFastest);
  }
}

TEST(OpenEndedControl, WithoutAForecastItKeepsUpAndNoMore) {
  IntensityReading none;
  none.trouble = "no route to host";
  const CarbonTerms terms = open_ended_terms(1.3, 6, true);
  const PlayedControl played =
      play_testing(terms, {300}, open_ended_loss, [&](Seconds) { return none; }, iterations_of(20));
  EXPECT_EQ(played.pauses, 0);
  EXPECT_EQ(played.said.front().mode, Mode::kStatic);
  EXPECT_THAT(played.said.front().why, HasSubstr("no route to host"));
  EXPECT_LE(played.finished, 20 * 1.3 + 1e-6);
  EXPECT_GT(played.finished, 20 * 1.1);
}

}  // namespace
}  // namespace harpe::training
