#pragma once
/// \file
/// Carbon control of one job: from its terms, its plans, its progress and a forecast to the pace of
/// the next interval, with its reason.
///
///   harpe::CarbonController controller(terms, state);
///   const harpe::CarbonDecision next = controller.decide(job, reading);
///   // the job runs at next.iteration_time, or pauses, until next.valid_until; controller.state()
///
/// What is left comes from the iterations that are really done: each decision plans anew
/// (pacing/paced_job.h). A reserve for what the job's progress has strayed so far keeps the
/// deadline with the terms' probability (progress_spread.h): each decision leaves so much time that
/// what is left, with the p quantile of what may be lost of it, fits. Near the deadline decisions
/// come closer together.
///
/// The forecast has to be one to act on (carbon_control_allowed), of the kind with which control
/// began, and tell of now. Where not, the job runs at the static pace that meets the deadline with
/// the reserve; so it does where the plan gains less than 0.5 % over that. A deadline that cannot
/// be met is said to be so, with what is possible, and the job runs at its fastest plan.
///
/// Pure: no clock, no threads, no input or output. Deterministic. A decision takes up to some
/// tenths of a second (plan_pacing).

#include <optional>
#include <string>

#include "harpe/base/units.h"
#include "harpe/carbon_control/control_state.h"
#include "harpe/carbon_control/intensity_outlook.h"
#include "harpe/carbon_control/job_pace_curve.h"
#include "harpe/wire/carbon_terms.h"

namespace harpe {

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
    kFastest,        ///< the deadline is missed, or nearly
    kDone,           ///< all iterations are done
  };
  Mode mode = Mode::kDone;
  std::optional<Seconds> iteration_time = {};  ///< none: paused, or done
  std::optional<Seconds> resumes = {};         ///< of a pause, since 1970
  Seconds valid_until{};                       ///< since 1970
  std::string why = {};                        ///< for people: "412 g/kWh"
  std::optional<double> grams_per_kwh = {};    ///< of this interval
  std::string step = {};                       ///< of the ladder; empty: there is no forecast
  Seconds deadline{};                          ///< since 1970
  bool in_time = true;                         ///< by what is expected, without a reserve
  Seconds finish{};                            ///< expected, since 1970
  Seconds earliest{};                          ///< at the fastest plan throughout, since 1970
  Seconds reserve{};                           ///< kept for what may be lost, at the fastest plan
  // Expected from now on, of the whole job; none without a forecast.
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
  void settle(const ControlledJob& job, const Situation& at);
  CarbonDecision by_plan(const Situation& at, CarbonDecision decision);
  CarbonDecision steady(const Situation& at, CarbonDecision decision);
  void keep(const Situation& at, const CarbonDecision& decision, double speed, Seconds lost,
            Watts power);

  CarbonTerms terms_;
  ControlState state_;
};

}  // namespace harpe
