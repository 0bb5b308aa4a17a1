#pragma once
/// \file
/// A simulated job that follows a controller, hour by hour, with noise and lost work.

#include <algorithm>
#include <functional>
#include <vector>

#include "harpe/training/carbon_control/carbon_controller.h"

namespace harpe::training {

inline constexpr double kControlStart = 1'764'000'000;  // a whole hour

inline JobPaces paces_testing() {
  JobPaces paces{.iterations = {}, .gpus = 8};
  // As on a frontier: the slower, the less energy is saved by each further step.
  for (int i = 0; i <= 10; ++i) {
    const double time = 10 + 0.5 * i;
    paces.iterations.push_back({Seconds{time}, Joules{24'000 + 9'000 / (1 + 0.5 * i)}});
  }
  return paces;
}

/// Returns the grams of the best constant pace that finishes by `until` hours.
inline double best_static(const std::vector<double>& hours, double work_hours, double until) {
  double best = 1e300;
  for (const carbon::PieceCost& one : paces_testing().iterations) {
    double time = work_hours * one.time.value / 10;
    if (time > until) continue;
    double grams = 0;
    for (std::size_t i = 0; time > 0; ++i, time -= 1) {
      grams += (one.energy / one.time).value * std::min(1.0, time) * 3600 / 3.6e6 *
               hours[i % hours.size()];
    }
    best = std::min(best, grams);
  }
  return best;
}

/// Returns an exact forecast, as made at the start of the hour of `now`.
inline IntensityReading reading_testing(const std::vector<double>& hours, Seconds now,
                                        double step = 3600) {
  const auto first = static_cast<std::size_t>((now.value - kControlStart) / step);
  IntensityReading reading;
  const carbon::WholeSeconds whole(static_cast<std::int64_t>(step));
  reading.identity = {.provider = "test", .zone = "X", .step = whole};
  carbon::LabelledForecast forecast;
  forecast.expected.start = carbon::UtcTime{static_cast<std::int64_t>(kControlStart)} +
                            static_cast<std::int64_t>(first) * whole;
  forecast.expected.step = whole;
  for (std::size_t i = first; i < first + 96; ++i) {
    forecast.expected.values.push_back(hours[i % hours.size()]);
  }
  forecast.expected.estimated.assign(96, 0);
  forecast.ladder = carbon::ForecastStep::kProvider;
  forecast.issued_at = forecast.fetched_at = forecast.expected.start;
  reading.forecast = forecast;
  return reading;
}

struct PlayedControl {
  double finished = 0;  ///< hours since the start
  double grams = 0;     ///< of the job's own power, pauses at idle power
  int pauses = 0, decisions = 0;
  std::vector<CarbonDecision> said = {};
};

/// \param lose  returns the seconds without progress in `run`, a piece of running time
/// \param read  returns the reading at a time
/// \param iterations  length of a job whose terms do not declare it
inline PlayedControl play_testing(const CarbonTerms& terms, const std::vector<double>& hours,
                                  const std::function<double(double run)>& lose,
                                  const std::function<IntensityReading(Seconds now)>& read = {},
                                  std::int64_t iterations = 0) {
  PlayedControl played;
  ControlState state;
  const JobPaces paces = paces_testing();
  const carbon::PaceCurve curve = *carbon::PaceCurve::make(paces.iterations);
  Seconds now{kControlStart};
  double done = 0;
  bool paused = false;
  // A job of unknown length ends at `iterations`, which the controller does not know.
  const auto all = static_cast<double>(terms.iterations.value_or(iterations));
  while (done < all && played.decisions < 5000) {
    CarbonController controller(terms, state);
    const IntensityReading reading = read ? read(now) : reading_testing(hours, now);
    const CarbonDecision next = controller.decide(
        {.now = now, .even = now - Seconds{kControlStart}, .done = done, .paces = paces}, reading);
    state = *parse_control_state(control_state_json(controller.state()));
    ++played.decisions;
    played.said.push_back(next);
    double time = (next.valid_until - now).value;
    const std::size_t hour =
        static_cast<std::size_t>((now.value - kControlStart) / 3600) % hours.size();
    const bool pauses = next.mode == CarbonDecision::Mode::kPaused;
    double lost = 0;
    if (paused && !pauses) lost = terms.pause->start.value;
    if (!paused && pauses) ++played.pauses;
    paused = pauses;
    double power = (curve.fastest().power * 0.2).value;
    if (terms.pause && terms.pause->idle_power) {
      power = terms.pause->idle_power->value * paces.gpus;
    }
    if (!pauses) {
      const double iteration = next.iteration_time->value;
      const double run = std::max(0.0, time - lost);
      const double useful = run - lose(run);
      if (done + useful / iteration >= all) time = lost + (all - done) * iteration + run - useful;
      done += useful / iteration;
      const std::size_t pace = curve.at_least(paces.fastest() / next.iteration_time.value() - 1e-9);
      power = curve.paces()[pace].power.value;
    }
    played.grams += power * time / 3.6e6 * hours[hour];
    now += Seconds{time};
  }
  played.finished = (now.value - kControlStart) / 3600;
  return played;
}

}  // namespace harpe::training
