#pragma once
/// \file
/// Simulation of the carbon that a job would have emitted if it had begun at some time of a
/// recorded series, under each way to choose its speed:
///
///   all-max      as fast as possible, from its start
///   steady       one constant pace: the pace of least energy that meets the deadline
///   best static  one constant pace, chosen with hindsight: the baseline for all other ways
///   Chase        its published rule, with the forecast of one interval; it has no deadline
///   Chase's time one constant choice, chosen with hindsight among those that take no longer than
///                Chase's rule did
///   Harpe        plans until the deadline by the forecast, again before each interval
///   hindsight    the same plan with the actual values: the bound of all forecasts
///
/// A job of unknown length (open_ended_job.h) is paced without knowing its work. Its deadline
/// follows from its terms and its work, so that only hindsight knows it.
///
/// Each decision uses only the values of intervals that have ended by then. Pure.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "harpe/carbon/carbon/intensity_series.h"
#include "harpe/carbon/pacing/pace_curve.h"
#include "harpe/carbon/pacing/paced_job.h"
#include "harpe/carbon/pacing/pacing_plan.h"
#include "harpe/lab/carbon_replay/forecast_table.h"

namespace harpe::lab {

/// Terms of Chase's choice of a power limit for the next interval (Yang et al., ICLR 2023 workshop
/// on climate change). It chooses the limit of the least
///
///     (eta P CI + (1 - eta) P_max CI_max) / throughput
///
/// with P the power under the limit, CI the forecast intensity of the interval, and P_max and
/// CI_max the highest of each. If CI is constant, so is the choice. The defaults are the published
/// values.
struct ChaseTerms {
  double eta = 0.24;
  double highest_intensity = 750;  ///< g/kWh
  Watts highest_power{300};        ///< of all GPUs of the job
};

/// Returns the position of Chase's choice in `choices` (not empty), among equals the first. Pure.
std::size_t chase_choice(std::span<const carbon::PieceCost> choices, double intensity,
                         const ChaseTerms& terms);

struct CarbonJob {
  std::vector<carbon::PieceCost> choices{};    ///< of one piece of work
  std::optional<carbon::PieceCost> all_max{};  ///< nullopt: the fastest choice
  /// Power of the job's hosts without their GPUs, while it runs.
  Watts host_power{};
  Seconds work{};              ///< at the fastest pace
  double deadline_factor = 1;  ///< deadline over `work`, at least 1
  carbon::PauseTerms pause{};  ///< its idle power includes that of the hosts
  double embodied = 0;         ///< g per second in which the job holds its hardware
  ChaseTerms chase{};
  /// Most that it may emit above a static plan, as a fraction (paced_job.h); nullopt: no guard.
  std::optional<double> guard{};
  /// Share of past forecast errors under which it may still end above the guard. 0: the guard holds
  /// for all intensities that stay within 5 % of the range of the last four weeks and change no
  /// faster than in these weeks.
  double guard_share = 0.01;
  /// For a job of unknown length: most time that it may be behind. Its slowdown is
  /// `deadline_factor` - 1.
  std::optional<Seconds> slack{};
  /// Unit of energy of the series: kWh for intensities, MWh for prices.
  Joules unit_of_energy{3.6e6};
};

struct WayOutcome {
  double grams = 0;  ///< operational and embodied; if the series has prices, money
  Joules energy{};
  Seconds time{};
  bool in_time = false;
  int pauses = 0;
};

struct StartOutcome {
  WayOutcome all_max, steady, best_static, chase, chase_static, harpe, hindsight;
  double bound = 0;  ///< g; no plan that is in time can emit less
};

/// The results for a start that need no forecast.
struct ForeseenOutcome {
  WayOutcome best_static;
  double bound = 0;  ///< g; no plan that is in time can emit less
};

class CarbonSimulation {
 public:
  /// Series and forecasts must outlive this object and have no gaps where jobs run. Without
  /// forecasts (null) only `foreseen` may be called.
  static Result<CarbonSimulation> make(CarbonJob job, const carbon::IntensitySeries& series,
                                       const ForecastTable* forecasts);

  /// Returns the number of starts whose deadline is within the series; valid starts are below it.
  std::size_t starts() const;
  /// Returns the outcome of a job that begins with interval `start`. Thread-safe.
  StartOutcome at(std::size_t start) const;
  /// Returns the outcome of the same job with full knowledge, in a fraction of the time.
  /// Thread-safe.
  ForeseenOutcome foreseen(std::size_t start) const;

 private:
  CarbonSimulation(CarbonJob job, carbon::PaceCurve curve, const carbon::IntensitySeries& series,
                   const ForecastTable* forecasts);

  std::vector<carbon::PacingInterval> intervals(std::size_t start, Seconds from, std::size_t issue,
                                                bool with_hindsight) const;
  WayOutcome constant(std::size_t start, Watts power, double speed) const;
  WayOutcome best_static(std::size_t start) const;
  WayOutcome by_chase(std::size_t start) const;
  WayOutcome static_within(std::size_t start, Seconds time) const;
  WayOutcome by_forecast(std::size_t start) const;
  WayOutcome open_ended(std::size_t start) const;
  std::optional<carbon::PacedInterval> decision(const carbon::PacedJob& job, std::size_t start,
                                                std::size_t i) const;
  double least_static_speed() const { return 1 / job_.deadline_factor; }

  CarbonJob job_;
  carbon::PaceCurve curve_;
  carbon::PacingJob pacing_;  ///< in grams
  const carbon::IntensitySeries* series_;
  const ForecastTable* forecasts_;
  Seconds step_{}, deadline_{};
  std::size_t count_ = 0;  ///< intervals up to the deadline; the last may be a part of one
};

}  // namespace harpe::lab
