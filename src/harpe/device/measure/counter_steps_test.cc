// Times of counter steps, estimated from readings in between.

#include "harpe/device/measure/counter_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace harpe::device {
namespace {

struct StepErrors {
  double rms = 0;     ///< of the times of steps, s
  double scaled = 0;  ///< root mean square of error over its stated sigma
  int steps = 0, reads = 0, regular = 0;
};

Instant steps_time(double seconds) {
  return Instant{} + Seconds{seconds};
}

/// Follows a counter with steps of `period` for 100 steps, after 40 steps to learn.
StepErrors follow(double period, double jitter, double sampling, double sampling_jitter,
                  std::mt19937_64& random, bool only_when_due = false) {
  std::normal_distribution<double> normal(0, jitter);
  std::uniform_real_distribution<double> unit(0, 1);
  std::vector<double> steps;
  const double phase = period * unit(random);
  for (int i = 0; i < 140; ++i) steps.push_back(phase + 0.01 + i * period + normal(random));
  CounterSteps learner;
  StepErrors errors;
  double time = 0;
  while (time < steps.back()) {
    const auto count = std::upper_bound(steps.begin(), steps.end(), time) - steps.begin();
    if (!only_when_due || learner.due(steps_time(time), {sampling * (1 + sampling_jitter)})) {
      errors.reads += 1;
      const auto step = learner.add(steps_time(time), {0}, {10.0 * static_cast<double>(count)});
      if (step && count > 40) {
        const double error =
            (step->time - steps_time(steps[static_cast<std::size_t>(count) - 1])).value;
        errors.rms += error * error;
        errors.scaled += std::pow(error / step->sigma.value, 2);
        errors.steps += 1;
        errors.regular += learner.regular() ? 1 : 0;
      }
    }
    time += sampling * (1 + sampling_jitter * (2 * unit(random) - 1));
  }
  errors.rms = std::sqrt(errors.rms / errors.steps);
  errors.scaled = std::sqrt(errors.scaled / errors.steps);
  return errors;
}

class Steps : public testing::TestWithParam<std::tuple<double, double>> {};

TEST_P(Steps, AreFoundFarBetterThanReadingsAreApart) {
  const auto [jitter, sampling_jitter] = GetParam();
  std::mt19937_64 random(7);
  StepErrors sum;
  constexpr int kRuns = 40;
  for (int run = 0; run < kRuns; ++run) {
    const StepErrors errors = follow(0.1, jitter, 0.02, sampling_jitter, random);
    sum.rms += errors.rms / kRuns;
    sum.scaled += errors.scaled / kRuns;
  }
  EXPECT_LT(sum.scaled, 1.25);
  EXPECT_LT(sum.rms, sampling_jitter > 0 ? std::max(0.002, 1.5 * jitter) : 0.0062);
}

/// Returns the learnt period after `count` steps, with readings about every 20 ms.
double period_after(int count, double period, std::mt19937_64& random) {
  std::uniform_real_distribution<double> unit(0, 1);
  CounterSteps learner;
  const double phase = period * unit(random), end = phase + count * period + 0.03;
  for (double time = 0; time < end; time += 0.02 * (0.75 + 0.5 * unit(random))) {
    const double steps = std::floor((time - phase) / period) + 1;
    (void)learner.add(steps_time(time), {0}, {10 * std::max(0.0, steps)});
  }
  return learner.period().value;
}

TEST(CounterSteps, APeriodThatIsNotTheExpectedOneShowsInTheFirstSteps) {
  std::mt19937_64 random(8);
  for (int run = 0; run < 100; ++run) {
    SCOPED_TRACE(run);
    for (const double period : {0.05, 0.1, 0.25, 0.5}) {
      EXPECT_NEAR(period_after(4, period, random), period, 0.01) << period;
    }
  }
}

TEST(CounterSteps, StepsAsFrequentAsReadingsArePlacedNoWiderThanReadings) {
  std::mt19937_64 random(9);
  for (int run = 0; run < 100; ++run) {
    SCOPED_TRACE(run);
    for (const double period : {0.005, 0.01, 0.02}) {
      EXPECT_LT(period_after(static_cast<int>(0.4 / period), period, random), 0.03) << period;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Jitter, Steps,
                         testing::Combine(testing::Values(0.0, 0.0003, 0.001, 0.003),
                                          testing::Values(0.0, 0.2)));

}  // namespace
}  // namespace harpe::device
