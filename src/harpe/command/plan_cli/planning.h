#pragma once
/// \file
/// From a job to its plans: the steps of `harpe plan`, without the command line around them.

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
  std::int64_t windows = 0;        ///< with as many the same plan is found again
  double gap_before = 0, gap = 0;  ///< at the deadline, as fractions
  bool is_interrupted = false;
};
/// One sentence.
std::string sentence_of(const SearchOutcome& outcome);

/// Shows how the search for the chosen plan comes on, and ends it when its time is over or Ctrl-C
/// is pressed. Not thread-safe.
class LongPlanSearch {
 public:
  /// Refers to both.
  LongPlanSearch(const PlanJob& job, Console& console) : job_(job), console_(console) {}

  /// `options` with the search that the job asks for, if any; refers to this.
  PlanOptions applied_to(PlanOptions options);
  /// Lets Ctrl-C end the program again.
  void end();
  /// Nothing where none was made.
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

/// What a job works on, read and put together.
struct PlanInputs {
  Profile profile;
  Pipeline pipeline;
  std::vector<Watts> blocking_power;  ///< one a stage
  /// Sentences on the work that is planned: rows that count in another way than the profile has
  /// them, and rows that are left out.
  std::vector<std::string> premises;
  std::vector<std::string> notes;  ///< what else a user should know, one sentence each
  /// True if the rows that the plan is made for are not those of the file: fitted, or shared by
  /// chunks.
  bool has_own_profile = false;
};

/// Reads profile and schedule, adds the fixed-time instructions and transfers of the job.
/// Diagnostics of all inputs are reported together. Refuses a profile
/// in other units; warns of what may not be meant.
Result<PlanInputs> read_inputs(const PlanJob& job, Console& console);

/// The same of a profile that was read, for the schedule of `job`.
Result<PlanInputs> inputs_of(const PlanJob& job, const Profile& given);

/// How the plans of a job are to be searched for.
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
  /// `chosen` with free switching, where the job asks for switching to cost something.
  std::optional<Plan> free_switching;
  /// `chosen` with clocks that come late, see late_replay.h; if the job takes changes as free.
  std::optional<Plan> late_replay;
  ReferenceTimes reference;  ///< without any wait for a straggler
  std::vector<Plan> along;   ///< along the frontier, fastest first; may be empty
  /// One of each plan along the frontier for settings as late as theirs; empty if none are late.
  std::vector<Joules> along_bounds;
  std::vector<FrontierPoint> late_bound;  ///< the curve of these bounds; empty if none are late
  Seconds waits_until{0};                 ///< end of a straggler's iteration; 0: none
  Joules tight_bound{0};                  ///< of `chosen`, see `Frontier::tight_lower_bound`
  std::optional<SearchOutcome> search;    ///< of a search that went on for `chosen`
  std::vector<NamedRivals> rivals;        ///< see rivals.h
  std::optional<carbon::ClusterTerms> cluster;  ///< if the job asks for its bill
  std::vector<std::string> premises;            ///< those of the inputs
  bool has_own_profile = false;                 ///< that of the inputs
};

/// Plans for the job's objective, for which `search` goes on, and `along` evenly spaced plans from
/// T_min to T*. For a straggler, all but those along the frontier wait for it.
Result<Planned> make_plans(const Frontier& frontier, const PlanJob& job, int along,
                           const Progress& progress, LongPlanSearch& search);

inline constexpr int kMostPlansShown = 50;
/// How many plans along the frontier a report shows where the job does not say: that many, and
/// fewer of a large pipeline.
int plans_shown(const Frontier& frontier);

}  // namespace harpe::command
