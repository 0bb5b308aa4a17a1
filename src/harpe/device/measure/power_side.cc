#include "harpe/device/measure/power_side.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "harpe/base/statistics.h"

namespace harpe {
namespace {

constexpr double kHazard = 0.03;        // that a run ends, at each reading
constexpr double kUnlikelySide = 2e-3;  // explanations below are left out
constexpr double kNegligible = 0.01;    // share of a manner within one
/// Of readings that belong to other runs: noise around a level, as shares of it.
constexpr std::array<double, 3> kRestNoise{0.004, 0.04, 0.25};
constexpr double kUsualJitter = 0.01;  // of the period

/// One way in which the nearest readings came about.
struct Component {
  double log_weight = 0, weight = 0;
  std::size_t manner = 0;
  std::size_t run = 0;  ///< so many readings belong to it
};

/// Log density of a reading of which nothing is known.
double log_anything(const SpanReading& reading, const PowerPrior& prior) {
  const double length = reading.span.to - reading.span.from;
  return log_normal(reading.energy - prior.mean * length,
                    square(prior.deviation * length) + reading.variance);
}

/// Log density of what follows a run of so many of the readings from `first` on, and that the run
/// is as long: power changes within the next reading if that is a step, which is then a mixture;
/// before it if it is a sample. `rest[k]`: log density of the readings from k on.
double log_after(std::span<const SpanReading> readings, std::size_t first, std::size_t run,
                 const PowerPrior& prior, std::span<const double> rest) {
  const std::size_t next = first + run;
  const double lasted = static_cast<double>(run) * std::log(1 - kHazard);
  if (next == readings.size()) return lasted;
  const double ended = lasted + std::log(kHazard);
  if (readings[next].is_sample && run > 0) return ended + rest[next];
  return ended + log_anything(readings[next], prior) + rest[next + 1];
}

/// `[k]`: log density of the readings from k on, as runs of noise around levels.
std::vector<double> log_rest(std::span<const SpanReading> readings, const PowerPrior& prior) {
  std::vector<double> rest(readings.size() + 1, 0);
  std::vector<double> terms;
  for (std::size_t first = readings.size(); first-- > 0;) {
    terms.clear();
    for (const double rough : kRestNoise) {
      double precision = 1 / square(prior.deviation), sum = prior.mean * precision, density = 0;
      for (std::size_t i = first; i < readings.size(); ++i) {
        const SpanReading& reading = readings[i];
        const double length = reading.span.to - reading.span.from;
        const double power = reading.energy / length;
        const double jitter =
            reading.is_sample ? 0 : 2 * square(kUsualJitter * power * prior.period / length);
        const double noise =
            square(rough * prior.level) + reading.variance / square(length) + jitter;
        // A density of energy, as the others are.
        density += log_normal(power - sum / precision, 1 / precision + noise) - std::log(length);
        precision += 1 / noise;
        sum += power / noise;
        terms.push_back(density + log_after(readings, first, i - first + 1, prior, rest) -
                        std::log(static_cast<double>(kRestNoise.size())));
      }
    }
    rest[first] = log_sum(terms);
  }
  return rest;
}

/// The normal distribution with mean and covariance of the mixture.
SideEnergy average(const std::vector<Component>& components, const PowerRegression& regression,
                   std::span<const EnergySpan> targets) {
  const std::size_t n = targets.size();
  SideEnergy energy{.mean = std::vector<double>(n, 0), .covariance = std::vector<double>(n * n, 0)};
  double all = 0;
  for (const Component& one : components) all += one.weight;
  for (std::size_t first = 0; first < components.size();) {
    const std::size_t manner = components[first].manner;
    std::vector<std::size_t> runs;
    const std::size_t begin = first;
    std::size_t last = first;
    for (; last < components.size() && components[last].manner == manner; ++last) {
      runs.push_back(components[last].run);
    }
    for (const PowerRegression::Prediction& one : regression.predict(manner, runs, targets)) {
      const double unsure = unsure_amplitude(manner, runs[first - begin]);
      const double weight = components[first++].weight / all;
      for (std::size_t i = 0; i < n; ++i) {
        energy.mean[i] += weight * one.mean[i];
        for (std::size_t j = 0; j < n; ++j) {
          energy.covariance[i * n + j] +=
              weight * (unsure * one.covariance[i * n + j] + one.mean[i] * one.mean[j]);
        }
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      energy.covariance[i * n + j] -= energy.mean[i] * energy.mean[j];
    }
  }
  return energy;
}

}  // namespace

SideAnswer energy_beyond(std::span<const SpanReading> readings, std::span<const StepTime> steps,
                         const PowerPrior& prior, std::span<const EnergySpan> targets) {
  const std::vector<double> rest = log_rest(readings, prior);
  const PowerRegression regression(readings, steps, prior);
  std::vector<double> after;
  for (std::size_t run = 0; run <= readings.size(); ++run) {
    after.push_back(log_after(readings, 0, run, prior, rest));
  }
  std::vector<Component> components{{.log_weight = after[0]}};
  const std::span<const PowerManner> manners = power_manners();
  for (std::size_t manner = 0; manner < manners.size(); ++manner) {
    for (std::size_t run = 1; run <= readings.size(); ++run) {
      components.push_back({.log_weight = manners[manner].log_prior + after[run] +
                                          regression.log_densities()[manner][run - 1],
                            .manner = manner,
                            .run = run});
    }
  }
  std::vector<double> terms;
  for (const Component& one : components) terms.push_back(one.log_weight);
  SideAnswer response{.energies = {}, .log_evidence = log_sum(terms)};
  std::vector<double> of_run(readings.size() + 1, 0);
  for (Component& one : components) {
    one.weight = std::exp(one.log_weight - response.log_evidence);
    of_run[one.run] += one.weight;
  }
  response.run = static_cast<std::size_t>(std::ranges::max_element(of_run) - of_run.begin());
  response.log_rest = after[response.run];
  for (const bool runs_on : {true, false}) {
    std::vector<Component> chosen;
    double weight = 0;
    for (const Component& one : components) {
      if ((one.run > 0) != runs_on) continue;
      weight += one.weight;
      chosen.push_back(one);
    }
    if (weight < kUnlikelySide) continue;
    std::erase_if(chosen, [&](const Component& one) { return one.weight < kNegligible * weight; });
    response.energies.push_back(average(chosen, regression, targets));
    response.energies.back().weight = weight;
    response.energies.back().runs_on = runs_on;
  }
  return response;
}

}  // namespace harpe
