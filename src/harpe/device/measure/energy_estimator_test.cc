// Estimates for windows of known energy: constant power, restarts, holes, missing sensors.

#include "harpe/device/measure/energy_estimator.h"

#include <gmock/gmock.h>

#include <cstdio>

#include "harpe/device/measure/test_signal.h"

namespace harpe::device {
namespace {

Instant at(double seconds) {
  return Sensor::instant(seconds);
}

EnergySample sample(double time, std::optional<double> counter, std::optional<double> power) {
  EnergySample result{.time = at(time)};
  if (counter) result.counter = Joules{*counter};
  if (power) result.power = Watts{*power};
  return result;
}

void expect_within_error(const EnergyEstimate& response, double truth) {
  EXPECT_LE(std::abs(response.energy.value - truth), response.error.value + 1e-6)
      << response.energy.value << " +- " << response.error.value << " J, truth " << truth << " J";
}

TEST(EnergyEstimator, ConstantPowerGivesTheRightJoules) {
  EnergyEstimator estimator;
  for (int second = 0; second <= 22; ++second) estimator.add(sample(second, {}, 100));
  EXPECT_DOUBLE_EQ(estimator.between(at(11), at(21)).energy.value, 1000);
  EXPECT_DOUBLE_EQ(estimator.between(at(11), at(21)).error.value, 0);
  EXPECT_EQ(estimator.between(at(11), at(21)).source, EnergySource::kPower);
  EXPECT_DOUBLE_EQ(estimator.between(at(11), at(21)).mean_power().value, 100);
}

TEST(EnergyEstimator, SeldomSamplesProveNothingUntilSomeHaveBeenSeen) {
  EnergyEstimator estimator;
  for (int second = 0; second <= 3; ++second) estimator.add(sample(second, {}, 100));
  const EnergyEstimate first = estimator.between(at(0), at(3));
  EXPECT_DOUBLE_EQ(first.energy.value, 300);
  EXPECT_GT(first.error.value, 100);
}

TEST(EnergyEstimator, SamplesAreHeldToTheEdges) {
  EnergyEstimator estimator;
  estimator.add(sample(100, {}, 100));
  estimator.add(sample(101, {}, 100));
  EXPECT_DOUBLE_EQ(estimator.between(at(99), at(102)).energy.value, 300);
}

TEST(EnergyEstimator, WithoutSamplesNothingIsClaimed) {
  const EnergyEstimator estimator;
  EXPECT_EQ(estimator.between(at(0), at(1)).source, EnergySource::kNone);
}

TEST(EnergyEstimator, AnEmptyWindowIsNoEnergyAndOneBackwardsIsNone) {
  EnergyEstimator estimator;
  for (int i = 0; i < 100; ++i) estimator.add(sample(i * 0.02, {}, 250));
  EXPECT_DOUBLE_EQ(estimator.between(at(1), at(1)).energy.value, 0);
  EXPECT_EQ(estimator.between(at(1.5), at(1)).source, EnergySource::kNone);
}

TEST(EnergyEstimator, TheCounterDecidesWherePowerHasAnotherScale) {
  std::mt19937_64 random(3);
  const Signal signal = make_signal(SignalKind::kConstant, 20, random);
  Sensor sensor(signal, {.power_scale = 0.6}, random);
  EnergyEstimator estimator;
  for (double time = 0; time < 15; time = sensor.next(time)) estimator.add(sensor.look(time));
  const EnergyEstimate response = estimator.between(at(5), at(12));
  expect_within_error(response, 7 * 300);
  EXPECT_EQ(response.source, EnergySource::kCounterAndPower);
  EXPECT_NEAR(response.counter_per_power.value(), 1 / 0.6, 0.02);
  EXPECT_DOUBLE_EQ(response.sensor_error.value, 0.05 * response.energy.value);
}

TEST(EnergyEstimator, ACounterThatIsAbsurdlyOffIsNotBelieved) {
  std::mt19937_64 random(4);
  const Signal signal = make_signal(SignalKind::kConstant, 20, random);
  Sensor sensor(signal, {.counter_scale = 0.001, .power_scale = 1}, random);
  EnergyEstimator estimator;
  for (double time = 0; time < 15; time = sensor.next(time)) estimator.add(sensor.look(time));
  const EnergyEstimate response = estimator.between(at(5), at(12));
  EXPECT_EQ(response.source, EnergySource::kPower);
  EXPECT_NEAR(response.energy.value, 2100, 15);
  EXPECT_NEAR(response.counter_per_power.value(), 0.001, 0.0001);
}

TEST(EnergyEstimator, ACounterAloneIsInterpolated) {
  std::mt19937_64 random(5);
  const Signal signal = make_signal(SignalKind::kTraining, 40, random);
  Sensor sensor(signal, {.has_power = false, .step = 0.001, .step_jitter = 0}, random);
  EnergyEstimator estimator({.counter_step = {0.001}});
  for (double time = 0; time < 35; time += 1) {
    for (const double edge : {7.3, 21.9}) {
      if (edge > time - 1 && edge <= time) estimator.add(sensor.look(edge));
    }
    estimator.add(sensor.look(time));
  }
  const EnergyEstimate response = estimator.between(at(7.3), at(21.9));
  EXPECT_EQ(response.source, EnergySource::kCounter);
  const double truth = signal.energy(21.9) - signal.energy(7.3);
  expect_within_error(response, truth);
  EXPECT_LT(response.error.value, 0.01 * truth);
}

TEST(EnergyEstimator, ARestartOfTheCounterIsBridgedByPower) {
  for (const double restart : {8.0, 8.05, 9.99}) {
    std::mt19937_64 random(6);
    const Signal signal = make_signal(SignalKind::kTraining, 30, random);
    Sensor sensor(signal, {}, random);
    EnergyEstimator estimator;
    std::optional<double> lost;
    for (double time = 0; time < 20; time = sensor.next(time)) {
      EnergySample seen = sensor.look(time);
      if (time >= restart) {
        if (!lost) lost = seen.counter->value;
        seen.counter = *seen.counter - Joules{*lost};
      }
      estimator.add(seen);
    }
    const EnergyEstimate over = estimator.between(at(5), at(15));
    expect_within_error(over, signal.energy(15) - signal.energy(5));
    EXPECT_EQ(over.restarts, 1);
    EXPECT_LT(over.error.value, 0.03 * over.energy.value);
    const EnergyEstimate after = estimator.between(at(12), at(15));
    expect_within_error(after, signal.energy(15) - signal.energy(12));
    EXPECT_EQ(after.restarts, 0);
  }
}

TEST(EnergyEstimator, AnImpossibleJumpOfTheCounterIsNoEnergy) {
  std::mt19937_64 random(8);
  const Signal signal = make_signal(SignalKind::kConstant, 30, random);
  Sensor sensor(signal, {}, random);
  EnergyEstimator estimator;
  for (double time = 0; time < 20; time = sensor.next(time)) {
    EnergySample seen = sensor.look(time);
    if (time > 9) seen.counter = *seen.counter + Joules{4.29e6};
    estimator.add(seen);
  }
  expect_within_error(estimator.between(at(5), at(15)), 3000);
}

TEST(EnergyEstimator, HolesAreCountedAndTheCounterReachesOverThem) {
  std::mt19937_64 random(9);
  const Signal signal = make_signal(SignalKind::kTraining, 60, random);
  for (const bool has_counter : {true, false}) {
    Sensor sensor(signal, {.has_counter = has_counter, .power_scale = 1}, random);
    EnergyEstimator estimator;
    for (double time = 0; time < 50; time = sensor.next(time)) {
      if (time < 10 || time > 30) estimator.add(sensor.look(time));
    }
    const EnergyEstimate response = estimator.between(at(5), at(40));
    expect_within_error(response, signal.energy(40) - signal.energy(5));
    EXPECT_NEAR(response.unobserved.value, 20, 0.1);
    EXPECT_LT(response.error.value, (has_counter ? 0.002 : 1.0) * response.energy.value);
    EXPECT_GT(response.error.value, (has_counter ? 0.0 : 0.05) * response.energy.value);
  }
}

TEST(EnergyEstimator, ThePastOfALongWindowIsKeptThoughSamplesAreNot) {
  std::mt19937_64 random(10);
  const Signal signal = make_signal(SignalKind::kTraining, 130, random);
  for (const bool has_counter : {true, false}) {
    Sensor sensor(signal, {.has_counter = has_counter, .power_scale = 1}, random);
    EnergyEstimator estimator({.history = {5}});
    int window = -1;
    for (double time = 0; time < 120; time = sensor.next(time)) {
      estimator.add(sensor.look(time));
      if (window < 0 && time > 3) window = estimator.open(at(3.2));
    }
    const EnergyEstimate response = estimator.close(window, at(119));
    expect_within_error(response, signal.energy(119) - signal.energy(3.2));
    EXPECT_DOUBLE_EQ(response.time.value, 119 - 3.2);
    EXPECT_EQ(estimator.close(window, at(119)).source, EnergySource::kNone) << "it was closed";
  }
}

TEST(EnergyEstimator, NeighboursAddUp) {
  constexpr std::uint64_t kSeeds = HARPE_UNDER_SANITIZERS ? 4 : 20;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto kind = static_cast<SignalKind>(seed % 4);
    const Signal signal = make_signal(kind, 40, random);
    Sensor sensor(signal, {}, random);
    EnergyEstimator estimator;
    for (double time = 0; time < 35; time = sensor.next(time)) {
      EnergySample seen = sensor.look(time);
      if (time > 20) seen.counter = *seen.counter - Joules{1300};  // restarts once
      estimator.add(seen);
    }
    const EnergyEstimate all = estimator.between(at(0), at(34.99));
    EXPECT_NEAR(all.energy.value, signal.energy(34.99), 0.03 * all.energy.value);
    std::uniform_real_distribution<double> unit(0, 1);
    for (int i = 0; i < 20; ++i) {
      const double first = 2 + 10 * unit(random);
      const double second = first + 10 * unit(random);
      const double third = second + 10 * unit(random);
      const EnergyEstimate left = estimator.between(at(first), at(second));
      const EnergyEstimate right = estimator.between(at(second), at(third));
      const EnergyEstimate whole = estimator.between(at(first), at(third));
      EXPECT_LE(std::abs(left.energy.value + right.energy.value - whole.energy.value),
                left.error.value + right.error.value + whole.error.value);
      EXPECT_GE(left.energy.value, 0);
    }
  }
}

/// As in `harpe monitor`, which looks once a second: readings are about as rare as counter steps,
/// and rarer on a busy machine.
TEST(EnergyEstimator, AnIdleGpuIsKnownWellThoughReadingsAreAsRareAsSteps) {
  constexpr double kIdle = 70, kHighest = 700;
  constexpr int kRuns = HARPE_UNDER_SANITIZERS ? 20 : 100;
  int held = 0;
  for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
    const bool is_busy = seed % 2 == 0;
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> unit(0, 1);
    Signal signal;
    signal.add(20, kIdle);
    Sensor sensor(
        signal,
        {.phase = 0.1 * unit(random), .measuring = 0.1, .sampling = 0.1, .sampling_jitter = 0.25},
        random);
    EnergyEstimator estimator;
    estimator.describe({0}, {kHighest});
    const double begin = 3 + unit(random), end = begin + 1.5 + 5 * unit(random);
    const auto next = [&](double time) {
      const double late = is_busy && unit(random) < 0.1 ? 0.4 * unit(random) : 0;
      return sensor.next(time) + late;
    };
    double next_look = begin, time = begin;
    for (; time < end; time = next(time)) {
      for (; next_look <= time; next_look += 1) estimator.add(sensor.look(next_look));
      estimator.add(sensor.look(time));
    }
    estimator.add(sensor.look(end));
    for (; !estimator.settled(at(end)); time = next(time)) estimator.add(sensor.look(time));
    const EnergyEstimate used = estimator.between(at(begin), at(end));
    EXPECT_LT(used.error.value, kIdle) << used.energy.value << " of " << kIdle * (end - begin);
    held += std::abs(used.energy.value - kIdle * (end - begin)) <= used.error.value ? 1 : 0;
  }
  EXPECT_GE(held, 0.93 * kRuns);
}

TEST(EnergyEstimator, AnAveragingSensorIsTakenForWhatItIs) {
  std::mt19937_64 random(12);
  const Signal signal = make_signal(SignalKind::kTraining, 60, random);
  EnergyEstimator estimator({.power_window = {1}});
  for (double time = 1; time < 50; time += 0.02) {
    estimator.add(sample(time, {}, signal.energy(time) - signal.energy(time - 1)));
  }
  for (double begin = 3; begin < 30; begin += 1.37) {
    const EnergyEstimate response = estimator.between(at(begin), at(begin + 10));
    EXPECT_EQ(response.source, EnergySource::kAveragePower);
    expect_within_error(response, signal.energy(begin + 10) - signal.energy(begin));
  }
}

TEST(EnergyEstimator, NonsenseIsIgnored) {
  EnergyEstimator estimator;
  estimator.add(sample(0, {}, 100));
  estimator.add(sample(1, {}, -5));
  estimator.add(sample(1.5, {}, std::nan("")));
  estimator.add(sample(1.6, std::nan(""), {}));
  estimator.add(sample(0.5, {}, 9000));  // out of order
  estimator.add(sample(2, {}, 100));
  EXPECT_DOUBLE_EQ(estimator.between(at(0), at(2)).energy.value, 200);
}

}  // namespace
}  // namespace harpe::device
