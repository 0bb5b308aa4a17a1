#pragma once
/// \file
/// Carbon control of one job: from its terms, its plans, its progress and a forecast to the pace of
/// the next interval, with its reason.
///
///   harpe::training::CarbonController controller(terms, state);
///   const harpe::training::CarbonDecision next = controller.decide(job, reading);
///   // the job runs at next.iteration_time, or pauses, until next.valid_until; controller.state()
///
/// What is left comes from the iterations that are really done: each decision plans anew
/// (pacing/paced_job.h). A reserve for what the job's progress has strayed so far keeps the
/// deadline with the terms' probability (control_state.h): each decision leaves so much time that
/// what is left, with the p quantile of what may be lost of it, fits. Near the deadline decisions
/// come closer together.
///
/// The forecast has to be one to act on (carbon_control_allowed), of the kind with which control
/// began, and tell of now. Where not, the job runs at the static pace that meets the deadline with
/// the reserve; so it does where the plan gains less than 0.5 % over that. A deadline that cannot
/// be met is said to be so, with what is possible, and the job runs at its fastest plan.
///
/// A guard goes by the errors of earlier forecasts (IntensityReading::record); where there are too
/// few, and so for a confidence of 1, by the range of the forecast.
///
/// A job of unknown length has no deadline: it may be behind by its slack
/// (pacing/open_ended_job.h), as measured: what it lost it makes up for. Of the slack so much is
/// kept in reserve as the next interval may lose. While control is away neither time nor work
/// counts.
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

/// A whole job as a PaceCurve: the time and energy of an iteration of all its pipelines under each
/// of its plans, including the time of iterations outside of pipelines.
struct JobPaces {
  std::vector<carbon::PieceCost> iterations;  ///< under each plan
  int gpus = 1;                               ///< of the whole job
  Seconds fastest() const;
};

struct JobPacesOf {
  int pipelines = 1;
  int gpus = 1;                ///< of the whole job
  Seconds overhead{};          ///< of an iteration beyond its pipelines; GPUs wait meanwhile
  Seconds slowest_pipeline{};  ///< of a straggler, for which all wait; 0: there is none
};

/// Plans that a straggler makes the others wait for are left out. Never empty.
JobPaces job_paces(const plan::PlanTable& plans, const JobPacesOf& of);

/// A job at the moment of a decision.
struct ControlledJob {
  Seconds now{};    ///< since 1970
  Seconds even{};   ///< the same moment by a clock that rises evenly
  double done = 0;  ///< iterations
  JobPaces paces;
  bool pauses_ignored = false;  ///< training was asked to pause, and went on
};

struct CarbonDecision {
  enum class Mode : unsigned char {
    kPaced,          ///< by the plan
    kPaused,         ///< by the plan
    kNothingToGain,  ///< static: the plan is no better
    kStatic,         ///< static: there is no forecast to act on
    kFastest,        ///< the deadline is missed, or nearly; the slack is used up
    kDone,           ///< all iterations are done
  };
  Mode mode = Mode::kDone;
  std::optional<Seconds> iteration_time = {};    ///< none: paused, or done
  std::optional<Seconds> resumes = {};           ///< of a pause, since 1970
  Seconds valid_until{};                         ///< since 1970
  std::string why = {};                          ///< for people: "412 g/kWh"
  std::optional<PresentIntensity> present = {};  ///< of this interval; none: no forecast to act on
  std::string step = {};                         ///< of the ladder; empty: there is no forecast
  std::string guard = {};  ///< by what it guards, for people; empty: it does not
  // Since 1970; none of a job of unknown length.
  std::optional<Seconds> deadline = {};
  std::optional<Seconds> finish = {};    ///< expected
  std::optional<Seconds> earliest = {};  ///< at the fastest plan throughout
  /// Of a job of unknown length: behind one that is slower by the deadline factor all along; below
  /// 0 it is ahead.
  std::optional<Seconds> behind = {};
  bool in_time = true;  ///< by what is expected, without a reserve; or within its slack
  Seconds reserve{};    ///< kept for what may be lost, at the fastest plan
  // Expected from now on, of the whole job; of one of unknown length until its slack binds, or as
  // far as it looks ahead. None without a forecast.
  std::optional<double> grams = {}, static_grams = {};
  /// Of the static job's grams, that the plan saves.
  std::optional<double> gain() const;
};
/// "paced", "paused", "nothing to gain", "static", "fastest", "done".
const char* name_of(CarbonDecision::Mode mode);

class CarbonController {
 public:
  CarbonController(CarbonTerms terms, ControlState state);

  CarbonDecision decide(const ControlledJob& job, const IntensityReading& reading);
  const ControlState& state() const { return state_; }

  /// Below which nothing is to be gained.
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

  // Of a job of unknown length.
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
  Seconds fastest{};           ///< of an iteration
  carbon::PacingJob pacing{};  ///< its work is what is left; of unknown length it has no meaning
  double all = 0;              ///< work since control began
  double reserve = 0;          ///< work
  Seconds time_left{};         ///< until the deadline; of unknown length, as far as is looked ahead
  double needed = 0;           ///< work that a steady pace has to do in that time
  IntensityOutlook outlook{};
  carbon::PacedJobPast past{};  ///< of unknown length its state alone
};

}  // namespace harpe::training
