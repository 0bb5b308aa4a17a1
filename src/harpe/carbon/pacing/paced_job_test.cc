// Jobs paced over weights that differ from their forecasts.

#include "harpe/carbon/pacing/paced_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace harpe::carbon {
namespace {

PaceCurve paced_curve() {
  return PaceCurve::make(
             {{{1.0}, {300}}, {{1.05}, {270}}, {{1.1}, {250}}, {{1.2}, {225}}, {{1.4}, {212}}})
      .take();
}

double paced_uniform(std::mt19937_64& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random() % 1'000'001) / 1e6;
}

struct Paced {
  double spent = 0, spent_static = 0;
  bool in_time = false;
};

/// Runs the job to its end. In interval `now`, the forecast for interval i is `forecast(now, i)`.
template <class Forecast>
Paced run(const PacingJob& job, const PacedJobTerms& terms, const std::vector<double>& weights,
          const WeightRange& ever, Forecast forecast) {
  constexpr Seconds kHour{3600};
  Paced outcome;
  PacedJob paced_job(paced_curve(), job, terms);
  std::size_t i = 0;
  for (; i < weights.size(); ++i) {
    std::vector<PacingInterval> expected;
    for (std::size_t k = i; k < weights.size(); ++k) expected.push_back({kHour, forecast(i, k)});
    const WeightRange next{weights[i], weights[i]};
    const auto paced = paced_job.decide(expected, next, ever);
    if (!paced) break;
    const Seconds left = std::min(kHour, terms.deadline - paced_job.elapsed());
    outcome.spent += weights[i] * use_of(paced_job.curve(), job, *paced, left).energy.value;
    paced_job.take(*paced, left, weights[i]);
  }
  outcome.in_time = paced_job.work_left() <= job.work * 1e-6;
  double static_left = job.work / paced_job.static_speed();
  const double power = [&] {
    const PaceCurve curve = paced_curve();
    const std::size_t pace = curve.at_least(paced_job.static_speed() * (1 - 1e-9));
    double at = curve.paces()[pace].power.value;
    if (pace > 0)
      at -= curve.slope(pace - 1) * (curve.paces()[pace].speed - paced_job.static_speed());
    return at;
  }();
  for (std::size_t k = 0; k < weights.size() && static_left > 0; ++k) {
    const double time = std::min(3600.0, static_left);
    outcome.spent_static += weights[k] * power * time;
    static_left -= time;
  }
  return outcome;
}

const PauseTerms kPause{
    .allowed = true, .idle_power = {20}, .stop = {60}, .start = {120}, .min_dwell = {3600}};

TEST(PacedJob, AGuardHoldsItsRatioWhateverIsForecast) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  double worst_without = 0;
  for (int round = 0; round < (HARPE_UNDER_SANITIZERS ? 8 : 40); ++round) {
    const double factor = paced_uniform(random, 1.05, 1.8);
    const int hours = 6 + static_cast<int>(random() % 24);
    const PacingJob job{.work = 3600.0 * hours, .pause = kPause};
    PacedJobTerms terms{.deadline = {job.work * factor},
                        .guard = paced_uniform(random, 0.005, 0.1)};
    std::vector<double> weights;
    for (int i = 0; i < hours * factor + 1; ++i) weights.push_back(paced_uniform(random, 100, 400));
    if (round % 2 == 0) std::ranges::sort(weights);  // waiting makes it more expensive
    // An adversarial forecast: cheap hours look expensive, and the reverse.
    const auto forecast = [&](std::size_t, std::size_t k) { return 500 - weights[k]; };
    const Paced guarded = run(job, terms, weights, {100, 400}, forecast);
    EXPECT_TRUE(guarded.in_time);
    EXPECT_LE(guarded.spent, (1 + *terms.guard) * guarded.spent_static * (1 + 1e-9));
    terms.guard.reset();
    const Paced free = run(job, terms, weights, {100, 400}, forecast);
    EXPECT_TRUE(free.in_time);
    worst_without = std::max(worst_without, free.spent / free.spent_static);
  }
  if (!HARPE_UNDER_SANITIZERS) {  // few rounds may have no such case
    EXPECT_GT(worst_without, 1.2) << "without a guard such forecasts cost";
  }
}

TEST(PacedJob, AGoodForecastGainsInAWideGuardToo) {
  const PacingJob job{.work = 3600.0 * 48, .pause = kPause};
  std::vector<double> weights;
  for (int i = 0; i < 80; ++i) weights.push_back(250 + 120 * std::sin(i * 6.283185307 / 24));
  const auto forecast = [&](std::size_t, std::size_t k) { return weights[k]; };
  PacedJobTerms terms{.deadline = {job.work * 1.5}};
  const Paced free = run(job, terms, weights, {130, 370}, forecast);
  terms.guard = 0.05;
  const Paced guarded = run(job, terms, weights, {130, 370}, forecast);
  EXPECT_LT(free.spent, 0.95 * free.spent_static);
  EXPECT_LT(guarded.spent, 0.99 * guarded.spent_static);
  EXPECT_TRUE(free.in_time && guarded.in_time);
}

/// Returns the excess cost over the static job, with the guard of `outlook(now)` in `now`.
template <class Forecast, class Outlook>
double over_static(const PacingJob& job, const PacedJobTerms& terms,
                   const std::vector<double>& weights, Forecast forecast, Outlook outlook) {
  constexpr Seconds kHour{3600};
  PacedJob paced_job(paced_curve(), job, terms);
  PacedJob steady(paced_curve(), job, {.deadline = terms.deadline, .guard = 0.0});
  double spent = 0, spent_static = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    std::vector<PacingInterval> expected;
    for (std::size_t k = i; k < weights.size(); ++k) expected.push_back({kHour, forecast(k)});
    const auto step = [&](PacedJob& one, const std::vector<WeightOutlook>& outlooks, double& sum) {
      const auto paced = one.decide(expected, outlooks);
      if (!paced) return;
      const Seconds left = std::min(kHour, terms.deadline - one.elapsed());
      sum += weights[i] * use_of(one.curve(), job, *paced, left).energy.value;
      one.take(*paced, left, weights[i]);
    };
    step(paced_job, outlook(i), spent);
    step(steady, {}, spent_static);  // a guard of 0 trusts no forecast: the static job
  }
  EXPECT_LE(paced_job.work_left(), job.work * 1e-6);
  return spent / spent_static - 1;
}

TEST(PacedJob, AGuardByOutlooksHoldsWhereOneOfThemComesTrue) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  double worst_without = 0;
  for (int round = 0; round < 20; ++round) {
    const PacingJob job{.work = 3600.0 * 12, .pause = kPause};
    PacedJobTerms terms{.deadline = {job.work * 1.5}, .guard = 0.01, .guard_share = 0};
    std::vector<std::vector<double>> days(40);
    for (auto& day : days) {
      for (int i = 0; i < 18; ++i) day.push_back(paced_uniform(random, 100, 400));
    }
    const std::vector<double>& weights = days[7];
    const auto wrong = [&](std::size_t k) { return 500 - weights[k]; };
    const auto outlook = [&](std::size_t now) {
      std::vector<WeightOutlook> outlooks;
      for (const auto& day : days) {
        outlooks.emplace_back(day.begin() + static_cast<std::ptrdiff_t>(now), day.end());
      }
      return outlooks;
    };
    EXPECT_LE(over_static(job, terms, weights, wrong, outlook), 0.01 + 1e-9);
    terms.guard.reset();
    worst_without = std::max(worst_without, over_static(job, terms, weights, wrong, outlook));
  }
  EXPECT_GT(worst_without, 0.1);
}

TEST(PacedJob, AGuardByOutlooksLeavesAGoodForecastAlone) {
  const PacingJob job{.work = 3600.0 * 48, .pause = kPause};
  std::vector<double> weights;
  for (int i = 0; i < 72; ++i) weights.push_back(250 + 120 * std::sin(i * 6.283185307 / 24));
  const auto forecast = [&](std::size_t k) { return weights[k]; };
  const auto outlook = [&](std::size_t now) {
    std::vector<WeightOutlook> outlooks;
    for (int level = -20; level <= 20; ++level) {
      WeightOutlook& one = outlooks.emplace_back();
      for (std::size_t k = now; k < weights.size(); ++k) {
        one.push_back(weights[k] * (1 + 0.01 * level));
      }
    }
    return outlooks;
  };
  PacedJobTerms terms{.deadline = {job.work * 1.5}};
  const double free = over_static(job, terms, weights, forecast, outlook);
  terms.guard = 0.01;
  EXPECT_NEAR(over_static(job, terms, weights, forecast, outlook), free, 1e-3);
  EXPECT_LT(free, -0.05);
}

TEST(PacedJob, AReserveIsKeptForWhatNoPlanKnows) {
  const PaceCurve curve = paced_curve();
  const PacingJob job{.work = 3600.0 * 10};
  const std::vector<PacingInterval> expected(20, {{3600}, 100});
  const auto speed = [&](double reserve) {
    const PacedJob paced_job(curve, job, {.deadline = {3600.0 * 13}, .reserve = reserve});
    const auto paced = paced_job.decide(expected, {100, 100}, {100, 100});
    return use_of(curve, job, paced.value(), {3600}).work;
  };
  EXPECT_GT(speed(0.2), speed(0.0));
  EXPECT_EQ(speed(1.0), 3600) << "no time to lose";
}

TEST(PacedJob, PastItsDeadlineItRunsAsFastAsItCan) {
  const PacingJob job{.work = 3600.0 * 3, .pause = kPause};
  PacedJob paced_job(paced_curve(), job, {.deadline = {3600}, .guard = 0.01});
  const std::vector<PacingInterval> expected(5, {{3600}, 100});
  int hours = 0;
  while (const auto paced = paced_job.decide(expected, {100, 100}, {50, 200})) {
    EXPECT_TRUE(paced->runs);
    paced_job.take(*paced, {3600}, 100);
    ASSERT_LT(++hours, 6);
  }
  EXPECT_EQ(hours, 3);
}

}  // namespace
}  // namespace harpe::carbon
