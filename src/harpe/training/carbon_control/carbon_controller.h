#pragma once
/// \file
/// Carbon control of one job: computes the pace of the next interval, and its reason, from the
/// job's terms, plans and progress and a forecast.
///
///   harpe::training::CarbonController controller(terms, state);
///   const harpe::training::CarbonDecision next = controller.decide(job, reading);
///   // the job runs at next.iteration_time, or pauses, until next.valid_until; controller.state()
///
/// Remaining work is computed from the iterations that are really done, and each decision makes a
/// new plan (pacing/paced_job.h). A reserve for the deviation of the job's progress so far keeps
/// the deadline with the probability in the terms (control_state.h): each decision leaves enough
/// time for the remaining work and the p quantile of its losses. Decisions become more frequent
/// near the deadline.
///
/// A plan requires a forecast that is allowed for control (carbon_control_allowed), has the kind
/// with which control began, and covers the present. Without one, the job runs at the static pace
/// that meets the deadline with the reserve; so it does if the plan gains less than 0.5 % over that
/// pace. If the deadline cannot be met, the decision reports it with the earliest possible end, and
/// the job runs at its fastest plan.
///
/// A guard uses the errors of earlier forecasts (IntensityReading::record). With too few of them,
/// or at a confidence of 1, it uses the range of the forecast.
///
/// A job of unknown length has no deadline: it may be behind by its slack
/// (pacing/open_ended_job.h), by measured progress, so lost work is made up for. A part of the
/// slack is kept in reserve for the possible loss of the next interval. Neither time nor work
/// counts while control is away.
///
/// Pure: no clock, no threads, no input or output. Deterministic. A decision takes up to some
/// tenths of a second (plan_pacing).

#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/carbon/pacing/open_ended_job.h"
#include "harpe/carbon/pacing/pace_curve.h"
#include "harpe/carbon/pacing/paced_job.h"
#include "harpe/carbon/pacing/pacing_plan.h"
#include "harpe/plan/policy/plan_table.h"
#include "harpe/training/carbon_control/control_state.h"
#include "harpe/training/carbon_control/intensity_outlook.h"
#include "harpe/training/wire/carbon_terms.h"

namespace harpe::training {

/// The plans of a whole job for a PaceCurve: time and energy of an iteration of all its pipelines
/// under each plan, including the time of an iteration outside of its pipelines.
struct JobPaces {
  std::vector<carbon::PieceCost> iterations;  ///< one for each plan
  int gpus = 1;                               ///< of the whole job
  Seconds fastest() const;
};

struct JobPacesOf {
  int pipelines = 1;
  int gpus = 1;        ///< of the whole job
  Seconds overhead{};  ///< time of an iteration outside of its pipelines, while GPUs wait
  /// Iteration time of a straggler, which the pipelines wait for; 0 if none.
  Seconds slowest_pipeline{};
};

/// Returns the paces of a job, one for each plan. Under a plan faster than the straggler, the
/// pipelines wait for it. Never empty.
JobPaces job_paces(const plan::PlanTable& plans, const JobPacesOf& of);

/// A job at the moment of a decision.
struct ControlledJob {
  Seconds now{};    ///< since 1970
  Seconds even{};   ///< the same moment by a steady clock
  double done = 0;  ///< iterations
  JobPaces paces;
  bool pauses_ignored = false;  ///< training was asked to pause, but continued
};

struct CarbonDecision {
  enum class Mode : unsigned char {
    kPaced,          ///< as planned
    kPaused,         ///< as planned
    kNothingToGain,  ///< static pace: the plan is no better
    kStatic,         ///< static pace: there is no usable forecast
    kFastest,        ///< the deadline is missed, or nearly; or the slack is used up
    kDone,           ///< all iterations are done
  };
  Mode mode = Mode::kDone;
  std::optional<Seconds> iteration_time = {};  ///< nullopt if paused or done
  std::optional<Seconds> resumes = {};         ///< end of a pause, since 1970
  Seconds valid_until{};                       ///< since 1970
  std::string why = {};                        ///< for display: "412 g/kWh"
  /// Of this interval; nullopt if there is no usable forecast.
  std::optional<PresentIntensity> present = {};
  std::string step = {};   ///< ladder step of the forecast; empty if there is none
  std::string guard = {};  ///< basis of the guard, for display; empty if there is no guard
  // Since 1970; nullopt for a job of unknown length.
  std::optional<Seconds> deadline = {};
  std::optional<Seconds> finish = {};    ///< expected
  std::optional<Seconds> earliest = {};  ///< at the fastest plan throughout
  /// For a job of unknown length: delay relative to a job that is always slower by the deadline
  /// factor; negative if it is ahead.
  std::optional<Seconds> behind = {};
  bool in_time = true;  ///< expected to meet the deadline, without a reserve; or within its slack
  Seconds reserve{};    ///< time kept for possible losses, at the fastest plan
  // Expected from now on, for the whole job; for a job of unknown length, until its slack binds or
  // as far as it looks ahead. nullopt without a forecast.
  std::optional<double> grams = {}, static_grams = {};
  /// Returns the fraction of the static job's grams that the plan saves.
  std::optional<double> gain() const;
};
/// Returns "paced", "paused", "nothing to gain", "static", "fastest" or "done".
const char* name_of(CarbonDecision::Mode mode);

class CarbonController {
 public:
  CarbonController(CarbonTerms terms, ControlState state);

  CarbonDecision decide(const ControlledJob& job, const IntensityReading& reading);
  const ControlState& state() const { return state_; }

  /// Gain below which the job runs at the static pace.
  static constexpr double kLeastGain = 0.005;

 private:
  struct Situation;
  void begin(const ControlledJob& job, const IntensityReading& reading);
  double left_of(const ControlledJob& job) const;
  void settle(const ControlledJob& job, const Situation& at);
  Situation situation_of(const ControlledJob& job, carbon::PaceCurve curve);
  carbon::PacedJob paced(const Situation& at) const;
  CarbonDecision nothing_left(const ControlledJob& job, std::string why);
  CarbonDecision by_deadline(const Situation& at, CarbonDecision decision);
  bool guards_by_errors(const IntensityOutlook& outlook) const;
  std::string guard_text(const IntensityOutlook& outlook) const;
  std::optional<carbon::PacingPlan> plan_of(const Situation& at) const;
  CarbonDecision by_plan(const Situation& at, CarbonDecision decision);
  CarbonDecision first_of(const Situation& at, const carbon::PacingPlan& plan, Seconds resumes,
                          CarbonDecision decision);
  CarbonDecision steady(const Situation& at, CarbonDecision decision);
  void keep(const Situation& at, const CarbonDecision& decision, double speed, Seconds lost,
            Watts power);

  // For a job of unknown length.
  Seconds look_ahead(Seconds now, const IntensityReading& reading) const;
  void count(const DecidedInterval& decided, Seconds& duration, double& done);
  carbon::OpenEndedJob open_ended(const Situation& at) const;
  CarbonDecision without_end(Situation& at, CarbonDecision decision);

  CarbonTerms terms_;
  ControlState state_;
};

/// The inputs of a decision of carbon control. Private to this room.
///
/// Work is in seconds at the fastest pace.
struct CarbonController::Situation {
  const ControlledJob& job;
  carbon::PaceCurve curve;
  Seconds fastest{};  ///< of an iteration
  /// Its work is the remaining work; unused for a job of unknown length.
  carbon::PacingJob pacing{};
  double all = 0;       ///< work since control began
  double reserve = 0;   ///< work
  Seconds time_left{};  ///< until the deadline, or as far as a job of unknown length looks ahead
  double needed = 0;    ///< work that a steady pace has to do in `time_left`
  IntensityOutlook outlook{};
  carbon::PacedJobPast past{};  ///< for a job of unknown length, only its state is used
};

}  // namespace harpe::training
