#pragma once
/// \file
/// What a job would have emitted, had it begun at some time of a recorded series, by each way to
/// choose its speed:
///
///   all-max      as fast as it can, from its start
///   steady       one pace all along, the one of least energy that meets the deadline
///   best static  one pace, chosen with hindsight: what every other way has to be better than
///   Chase        its published rule, with the forecast of one interval ahead; it knows no deadline
///   Chase's time one choice all along, with hindsight, of those that take no longer than Chase's
///                rule did
///   Harpe        plans to the deadline by the forecast, again before each interval
///   hindsight    the same plan with what came: the bound of what any forecast can reach
///
/// A job of unknown length (open_ended_job.h) is paced without being told its work; its deadline is
/// then what its terms come to in the end, which hindsight alone knows.
///
/// Decisions use what was known then: values of intervals that had ended. Pure.

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

/// Position in `choices`, not empty; of several that are as good the first. Pure.
std::size_t chase_choice(std::span<const carbon::PieceCost> choices, double intensity,
                         const ChaseTerms& terms);

struct CarbonJob {
  std::vector<carbon::PieceCost> choices{};    ///< of one piece of work
  std::optional<carbon::PieceCost> all_max{};  ///< none: the fastest choice
  Watts host_power{};                          ///< of what it holds beside its GPUs, while it runs
  Seconds work{};                              ///< at the fastest pace
  double deadline_factor = 1;                  ///< deadline over that, at least 1
  carbon::PauseTerms pause{};                  ///< its idle power with that of the hosts
  double embodied = 0;                         ///< g a second that it holds its hardware
  ChaseTerms chase{};
  /// How far above a static plan it may end, a fraction (paced_job.h); none: no guard.
  std::optional<double> guard{};
  /// Of past forecasts' errors, those with which it may end above that. 0: whatever comes, as long
  /// as intensities stay within 5 % of what the last four weeks had been through, and change no
  /// faster.
  double guard_share = 0.01;
  /// Of a job of unknown length: how much it may be behind. Its slowdown is deadline_factor - 1.
  std::optional<Seconds> slack{};
  /// In which the series counts energy: kWh of intensities, MWh of prices.
  Joules unit_of_energy{3.6e6};
};

struct WayOutcome {
  double grams = 0;  ///< operational, and embodied; of prices, the money
  Joules energy{};
  Seconds time{};
  bool in_time = false;
  int pauses = 0;
};

struct StartOutcome {
  WayOutcome all_max, steady, best_static, chase, chase_static, harpe, hindsight;
  double bound = 0;  ///< g, less than any plan that is in time can emit
};

/// What can be known of a start without any forecast.
struct ForeseenOutcome {
  WayOutcome best_static;
  double bound = 0;  ///< g, less than any plan that is in time can emit
};

class CarbonSimulation {
 public:
  /// Series and forecasts must outlive it, and have no gaps where jobs run. Without forecasts
  /// (null) it answers `foreseen` alone.
  static Result<CarbonSimulation> make(CarbonJob job, const carbon::IntensitySeries& series,
                                       const ForecastTable* forecasts);

  /// Starts that have the deadline within the series: 0 to this, without it.
  std::size_t starts() const;
  /// Of a job that begins with interval `start`. Thread-safe.
  StartOutcome at(std::size_t start) const;
  /// Of the same job, with full knowledge, in a fraction of the time. Thread-safe.
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
