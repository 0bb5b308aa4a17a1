#pragma once
/// \file
/// The steps of `harpe plan` from a job to its plans, without the command line around them.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/command/command/console.h"
#include "harpe/command/plan_cli/plan_job.h"
#include "harpe/plan/baseline/one_setting.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/pipeline.h"

namespace harpe::command {

/// The result of a long search.
struct SearchOutcome {
  double seconds = 0;
  std::int64_t windows = 0;        ///< a search with this many windows finds the same plan again
  double gap_before = 0, gap = 0;  ///< at the deadline, as fractions
  bool is_interrupted = false;
};
/// Returns one sentence.
std::string sentence_of(const SearchOutcome& outcome);

/// The search for the chosen plan: shows its progress, and ends it when its time is over or Ctrl-C
/// is pressed. Not thread-safe.
class LongPlanSearch {
 public:
  /// Refers to both arguments.
  LongPlanSearch(const PlanJob& job, Console& console) : job_(job), console_(console) {}

  /// Returns `options` with the search that the job requests, if any; it refers to this object.
  PlanOptions applied_to(PlanOptions options);
  /// Ends the display, and lets Ctrl-C end the program again.
  void end();
  /// Returns nullopt if no search was made.
  const std::optional<SearchOutcome>& outcome() const { return outcome_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool go_on(const SearchProgress& progress);
  double elapsed() const;

  const PlanJob& job_;
  Console& console_;
  std::optional<InterruptScope> interrupt_;
  std::optional<ProgressBar> bar_;
  Clock::time_point started_;
  std::optional<SearchOutcome> outcome_;
};

/// The inputs of a job, read and combined.
struct PlanInputs {
  Profile profile;
  Pipeline pipeline;
  std::vector<Watts> blocking_power;  ///< one per stage
  /// Sentences about the planned work: rows that count differently from the profile's, and rows
  /// that are left out.
  std::vector<std::string> premises;
  std::vector<std::string> notes;  ///< other facts that the user should know, one sentence each
  /// True if the plan is made for other rows than those of the file: fitted rows, or rows shared by
  /// chunks.
  bool has_own_profile = false;
};

/// Reads profile and schedule, and adds the fixed-time instructions and transfers of the job.
/// Reports the diagnostics of all inputs together. Refuses a profile in other units, and warns of
/// inputs that may be mistakes.
Result<PlanInputs> read_inputs(const PlanJob& job, Console& console);

/// Returns the inputs of a profile that is already read, for the schedule of `job`.
Result<PlanInputs> inputs_of(const PlanJob& job, const Profile& given);

/// Returns the options of the search for the plans of a job.
/// \param profile  that the plans are made for
PlanOptions options_of(const PlanJob& job, const Profile& profile);

/// One setting for all GPUs, which the plan is compared with.
struct NamedRivals {
  std::string name;    ///< "one clock"
  std::string source;  ///< "profile", or "model of a100-sxm"
  std::vector<OneSettingPoint> curve;
  plan::Rivals rivals;
};

/// The plans that a summary and a report show.
struct Planned {
  Plan all_max;
  std::optional<Plan> all_max_alone;  ///< without its wait for a straggler, if it waits
  Plan fastest;
  Plan chosen;
  Plan least_energy;
  /// `chosen` with free switching, if the job sets a cost of switching.
  std::optional<Plan> free_switching;
  /// `chosen` with late clocks, see late_replay.h, if the job assumes free changes.
  std::optional<Plan> late_replay;
  ReferenceTimes reference;  ///< without any wait for a straggler
  std::vector<Plan> along;   ///< along the frontier, fastest first; may be empty
  /// Bounds of the plans along the frontier for settings as late as theirs; empty if none are late.
  std::vector<Joules> along_bounds;
  std::vector<FrontierPoint> late_bound;  ///< the curve of these bounds; empty if none are late
  Seconds waits_until{0};                 ///< end of a straggler's iteration; 0: none
  Joules tight_bound{0};                  ///< of `chosen`, see `Frontier::tight_lower_bound`
  std::optional<SearchOutcome> search;    ///< of the continued search for `chosen`
  std::vector<NamedRivals> rivals;        ///< see rivals.h
  std::optional<carbon::ClusterTerms> cluster;  ///< if the job requests its bill
  std::vector<std::string> premises;            ///< of the inputs
  bool has_own_profile = false;                 ///< of the inputs
};

/// Makes the plans for the job's objective, which `search` refines, and `along` evenly spaced plans
/// from T_min to T*. For a straggler, all plans except those along the frontier wait for it.
Result<Planned> make_plans(const Frontier& frontier, const PlanJob& job, int along,
                           const Progress& progress, LongPlanSearch& search);

inline constexpr int kMostPlansShown = 50;
/// Returns the number of plans along the frontier that a report shows if the job does not set it:
/// `kMostPlansShown`, and fewer for a large pipeline.
int plans_shown(const Frontier& frontier);

}  // namespace harpe::command
