// A job of unknown length over weights that were never forecast.

#include "harpe/carbon/pacing/open_ended_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace harpe::carbon {
namespace {

constexpr Seconds kOpenEndedHour{3600};

PaceCurve some_curve() {
  return PaceCurve::make(
             {{{1.0}, {300}}, {{1.05}, {270}}, {{1.1}, {250}}, {{1.2}, {225}}, {{1.4}, {212}}})
      .take();
}

double uniform(std::mt19937_64& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random() % 1'000'001) / 1e6;
}

struct Ran {
  double spent = 0, work = 0, most_behind = -1e9;
  int pauses = 0;
};

/// Runs a job over all weights but the last `window`. It expects `forecast(k)` in interval k.
template <class Forecast>
Ran run(const OpenEndedTerms& terms, const std::vector<double>& weights, std::size_t window,
        Forecast forecast) {
  Ran ran;
  OpenEndedJob job(some_curve(), terms);
  for (std::size_t i = 0; i + window <= weights.size(); ++i) {
    std::vector<PacingInterval> expected;
    for (std::size_t k = i; k < i + window; ++k) expected.push_back({kOpenEndedHour, forecast(k)});
    const PacedInterval paced = job.decide(expected);
    ran.pauses += !paced.runs && !job.state().is_paused ? 1 : 0;
    ran.spent += weights[i] * use_of(job.curve(), job.terms(), paced, kOpenEndedHour).energy.value;
    job.take(paced, kOpenEndedHour);
    ran.most_behind = std::max(ran.most_behind, job.required(job.elapsed()) - job.done());
  }
  ran.work = job.done();
  return ran;
}

PauseTerms pauses(double idle) {
  return {.allowed = true, .idle_power = {idle}, .stop = {60}, .start = {120}, .min_dwell = {3600}};
}

TEST(OpenEndedJob, IsNeverFurtherBehindThanItMay) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < (HARPE_UNDER_SANITIZERS ? 5 : 20); ++round) {
    OpenEndedTerms terms{.slowdown = uniform(random, 0.05, 0.8),
                         .slack = kOpenEndedHour * uniform(random, 0, 20),
                         .pause = pauses(uniform(random, 0, 60))};
    terms.pause.allowed = round % 5 != 0;
    terms.pause.min_dwell = kOpenEndedHour * static_cast<double>(1 + random() % 3);
    const auto window = 1 + random() % 70;
    std::vector<double> weights;
    for (std::size_t i = 0; i < window + 60; ++i) weights.push_back(uniform(random, 0, 400));
    const auto wrong = [&](std::size_t k) { return 400 - weights[k]; };
    const Ran ran = run(terms, weights, window, wrong);
    EXPECT_LE(ran.most_behind, 1e-3) << "slack " << terms.slack.value / 3600 << " h, slowdown "
                                     << terms.slowdown << ", window " << window;
  }
}

TEST(OpenEndedJob, GoesOnFromItsPastAsIfItHadNotStopped) {
  const OpenEndedTerms terms{.slowdown = 0.5, .slack = kOpenEndedHour * 12, .pause = pauses(0)};
  OpenEndedJob whole(some_curve(), terms);
  std::vector<PacingInterval> expected;
  for (int i = 0; i < 72; ++i) {
    expected.push_back({kOpenEndedHour, 250 + 120 * std::sin(i * 6.283185307 / 24)});
  }
  for (int i = 0; i < 30; ++i) {
    OpenEndedJob resumed(some_curve(), terms);
    resumed.resume({.done = whole.done(), .elapsed = whole.elapsed(), .state = whole.state()});
    const PacedInterval one = whole.decide(expected), other = resumed.plan(expected).intervals[0];
    EXPECT_EQ(one.runs, other.runs);
    EXPECT_EQ(one.pace, other.pace);
    EXPECT_EQ(one.run, other.run);
    whole.take(one, kOpenEndedHour);
    std::rotate(expected.begin(), expected.begin() + 1, expected.end());
  }
}

TEST(OpenEndedJob, OnAFlatGridItRunsSteadily) {
  const OpenEndedTerms terms{.slowdown = 0.1, .slack = kOpenEndedHour * 6, .pause = pauses(0)};
  const std::vector<double> weights(24 * 14, 100.0);
  const Ran ran = run(terms, weights, 72, [](std::size_t) { return 100.0; });
  // A piece of 1.2 s takes 225 J, but the job may be only a tenth slower than the fastest pace.
  EXPECT_LT(ran.spent / ran.work, 100 * 252.0);
  EXPECT_LE(ran.pauses, 1);
}

TEST(OpenEndedJob, WhereDaysSwingItDoesMoreOfItsWorkAtNight) {
  const OpenEndedTerms terms{.slowdown = 0.8, .slack = kOpenEndedHour * 12, .pause = pauses(0)};
  std::vector<double> weights;
  for (int i = 0; i < 24 * 14; ++i) weights.push_back(250 + 120 * std::sin(i * 6.283185307 / 24));
  const Ran ran = run(terms, weights, 72, [&](std::size_t k) { return weights[k]; });
  const double steady = 250 * 212.0;  // mean weight x J of a piece at the slowest pace
  EXPECT_LT(ran.spent / ran.work, 0.93 * steady);
  EXPECT_GT(ran.pauses, 8);
  EXPECT_LE(ran.most_behind, 1e-3);
}

TEST(OpenEndedJob, WithoutSlackOrPausesItKeepsUpHourByHour) {
  const OpenEndedTerms terms{.slowdown = 0.2};
  std::vector<double> weights;
  for (int i = 0; i < 100; ++i) weights.push_back(i % 2 == 0 ? 100 : 300);
  const Ran ran = run(terms, weights, 24, [&](std::size_t k) { return weights[k]; });
  EXPECT_EQ(ran.pauses, 0);
  EXPECT_LE(ran.most_behind, 1e-3);
}

}  // namespace
}  // namespace harpe::carbon
