#include "harpe/command/carbon_cli/simulation_runs.h"

#include <algorithm>
#include <cmath>

#include "harpe/base/text.h"
#include "harpe/command/command/on_all_processors.h"

namespace harpe {
namespace {

// By steps of the golden ratio starts are even over the year, and over the hours of the day
// whatever their number is.
constexpr double kStartStep = 0.6180339887498949;
// Enough for a word ahead; they take less time than the forecasts.
constexpr std::size_t kForeseenStarts = 20;

std::size_t start_of(std::size_t i, std::size_t starts) {
  const double turns = kStartStep * static_cast<double>(i);
  const auto start =
      static_cast<std::size_t>((turns - std::floor(turns)) * static_cast<double>(starts));
  return std::min(start, starts - 1);
}

/// \param run  of the number of a start, its outcome; called by several threads
template <class Run>
auto outcomes_of(std::size_t count, Run run, const std::function<void(double)>& progress) {
  std::vector<decltype(run(std::size_t{}))> outcomes(count);
  on_all_processors(count, [&](std::size_t i) { outcomes[i] = run(i); }, progress);
  return outcomes;
}

Seconds fastest_of(const std::vector<PieceCost>& choices) {
  return std::ranges::min(choices, {}, &PieceCost::time).time;
}

}  // namespace

std::vector<StartOutcome> run_starts(const CarbonSimulation& simulation, std::size_t count,
                                     const std::function<void(double)>& progress) {
  const std::size_t starts = simulation.starts();
  return outcomes_of(
      count, [&](std::size_t i) { return simulation.at(start_of(i, starts)); }, progress);
}

Prospect foresee(const CarbonSimulation& simulation, std::size_t count, bool is_price) {
  const std::size_t starts = simulation.starts();
  const auto outcomes =
      outcomes_of(std::min(count, kForeseenStarts),
                  [&](std::size_t i) { return simulation.foreseen(start_of(i, starts)); }, {});
  Prospect prospect{.starts = outcomes.size()};
  double cost = 0;
  for (const ForeseenOutcome& one : outcomes) cost += std::abs(one.best_static.grams);
  cost = std::max(1e-12, cost / static_cast<double>(outcomes.size()));
  for (const ForeseenOutcome& one : outcomes) {
    const double base = is_price ? cost : one.best_static.grams;
    prospect.bound += (one.best_static.grams - one.bound) / base;
  }
  prospect.bound /= static_cast<double>(outcomes.size());
  return prospect;
}

Result<CarbonJob> under_control(const CarbonJob& job, const std::vector<PieceCost>& choices,
                                const std::string& name) {
  HARPE_TRY(PaceCurve::make(choices, job.host_power));
  const Seconds own = fastest_of(job.choices), other = fastest_of(choices);
  CarbonJob changed = job;
  changed.choices = choices;
  changed.work = job.work * (other / own);
  changed.deadline_factor = job.deadline_factor * (own / other);
  constexpr double kRounding = 1e-9;
  if (changed.deadline_factor < 1 - kRounding) {
    return Error::invalid(name + ": its fastest choice takes " + shortest(other / own, 4) +
                          " times as long as the job's own, beyond a deadline factor of " +
                          shortest(job.deadline_factor, 4));
  }
  changed.deadline_factor = std::max(1.0, changed.deadline_factor);
  return changed;
}

}  // namespace harpe
