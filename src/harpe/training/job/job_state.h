#pragma once
/// \file
/// The private state of a job. Only for its `.cc` files.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "harpe/base/statistics.h"
#include "harpe/base/units.h"
#include "harpe/plan/policy/pipeline_times.h"
#include "harpe/plan/policy/plan_table.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/plan/schedule/schedule_work.h"
#include "harpe/training/job/all_max_baseline.h"
#include "harpe/training/job/iteration_collector.h"
#include "harpe/training/job/job.h"
#include "harpe/training/job/late_clocks.h"
#include "harpe/training/job/observation.h"
#include "harpe/training/job/profiler.h"
#include "harpe/training/job/promise_guard.h"
#include "harpe/training/job/rank_book.h"
#include "harpe/training/job/savings.h"
#include "harpe/training/job/straggler_detector.h"

namespace harpe {
class Fields;
}  // namespace harpe

namespace harpe::training {

/// A detector of stages whose energy has drifted from the energy that their plan predicts.
///
/// It keeps the ratios of measured to predicted energy of the last `window` iterations. A stage has
/// drifted if at least `needed` of them differ from 1 by more than `bound`, all on one side. Noise
/// around the bound and single iterations are not drift.
///
/// Not thread-safe.
class DriftWatch {
 public:
  struct Options {
    int window = 10;
    int needed = 8;
    double bound = 0.05;
  };
  explicit DriftWatch(int stages, Options options);
  explicit DriftWatch(int stages) : DriftWatch(stages, Options()) {}

  /// Adds the ratios of measured to predicted energy of each stage, NaN if not known.
  /// \param all           of the iteration, waiting included
  /// \param computations  of its computations alone
  void add(std::span<const double> all, std::span<const double> computations);
  void reset();

  struct Moved {
    int stage = 0;
    double factor = 1;  ///< of the energy of its computations; NaN if not known
  };
  std::vector<Moved> moved() const;

 private:
  struct Ratios {
    std::vector<double> all, computations;  ///< rings
  };
  Options options_;
  std::vector<Ratios> stages_;
  std::size_t next_ = 0;
};

// The phases of a job, each with the data that lives only as long as the phase. Only for the job's
// `.cc` files; other code knows a phase by its name, `JobPhase`.

/// The job waits for ranks to register, at its first start or after training started again.
struct Registering {
  std::optional<Profiler::Kept> interrupted = {};  ///< profiling to resume with all ranks
  bool missing_logged = false;
};

/// The job measures the costs of instructions.
struct Profiling {
  Profiler profiler;
  /// Time since which some stage reports no energy, without which no plan can be made.
  std::optional<Seconds> no_energy_since = {};
  bool no_energy_logged = false;
};

/// The first plans from a profile are being made, while all GPUs run at all-max.
struct Characterizing {};

/// Some iterations at all-max between those by a plan, which measure the machines without the plan.
struct Probe {
  std::uint64_t version = 0;    ///< of its assignments
  std::uint64_t restoring = 0;  ///< version that restores the plan
  std::int64_t until = 0;       ///< iteration from which the plan holds again
  bool alarmed = false;         ///< true if the promise seems broken, false if the probe was due
  Seconds allowed{};            ///< time that the objective allowed an iteration before the probe
  std::size_t compared = 0;     ///< number of newest iterations by the plan to compare with
  /// Seconds of its iterations except the first: measured, and `late_at_all_max`.
  std::vector<double> times, late;
};

/// All stages run at all-max until those that differ from the profile have been measured there.
struct SettlingStages {
  std::int64_t from = 0;           ///< iteration from which all-max holds
  std::vector<SlowStage> doubted;  ///< stages that may be slow, or faster, only under their plan
};

/// Training runs by plans, or at all-max if none could be made.
struct Running {
  bool straggling = false;  ///< true if the newest choice of plans has stragglers
  /// A probe does not begin while stages settle, nor the reverse.
  std::variant<std::monostate, Probe, SettlingStages> look = {};
};

/// Training is measured, and no clock is set.
struct Observing {
  Observation observation;
  std::int64_t estimate_at = 10;  ///< number of observed iterations for the next estimate
  /// Tickets of the searches for the estimate, one for each assumption; 0 if none is running.
  std::array<std::uint64_t, kAssumptions.size()> tickets{};
  std::array<double, kAssumptions.size()> savings{};  ///< fractions
  std::string basis = {};                             ///< of the estimate in progress
  EstimatedSaving estimate = {};
};

using Phase = std::variant<Registering, Profiling, Characterizing, Running, Observing>;

/// A change of the profile that made a stage slower or faster.
struct Rescaling {
  std::int64_t iteration = 0;
  int stage = 0;
  bool slower = false;
};

/// A stage, of one pipeline or of all, that was slow or faster under its plan.
struct Finding {
  std::int64_t iteration = 0;
  int stage = 0;
  std::optional<int> pipeline;
  bool faster = false;
};

/// One version of the assignments of all ranks.
struct Deployment {
  std::uint64_t version = 0;
  std::int64_t from = 0;
  StageAssignment::Purpose purpose = StageAssignment::Purpose::kAllMax;
  std::vector<Megahertz> stage_clocks;           ///< for all-max and profile
  std::shared_ptr<const plan::PlanTable> plans;  ///< for plan, and for all-max if it has knobs
  plan::PlanChoice choice;                       ///< for plan
  /// For plan: tables of the pipelines that have plans for their own costs.
  std::map<int, std::shared_ptr<const plan::PlanTable>> own;
  std::optional<PauseRequest> pause = {};  ///< see `StageAssignment`
  /// The version by which the same plans were first in force; later ones differ in their first
  /// iteration or the pause.
  std::uint64_t first_version = 0;

  const plan::TablePlan& plan(int pipeline) const;
};

/// A pipeline with costs of its own, and the state of their measurement.
struct WatchedPipeline {
  plan::SlowPipeline slow;
  double declared = 1;        ///< declared factor; 1 if it was not declared
  Seconds declared_time{};    ///< `declared` x the fastest plan of that time; 0 if there was none
  bool outside_seen = false;  ///< true if all-max of all pipelines has shown `slow.outside`
  std::int64_t all_max_from = -1;  ///< iteration since which it runs at all-max; -1 if it does not
  bool all_max_begins = false;     ///< true if its measurement begins again at `all_max_from`
  std::int64_t not_before = 0;     ///< iteration before which it runs nothing slower than all-max
  int changes = 0;                 ///< of its factors after plans were chosen for them
  std::int64_t changed_at = 0;     ///< iteration of the last change
  std::uint64_t own_ticket = 0;    ///< of the request for its own plans; 0 if none is running
  Seconds own_until{};             ///< time by which its computations end under its own plans
  bool own_failed = false;
};

/// Costs of stages relative to the profile.
struct StageCosts {
  std::vector<double> time, energy;  ///< factors; for held stages at their highest clock
  /// True if the GPUs are held to a clock below the requested one. An instruction that takes as
  /// long as at a profiled clock is then assumed to use the energy of that clock.
  std::vector<bool> held;
};

/// Ranks of another start of training, or of another specification, that hold no places yet.
struct Gathering {
  std::string specification;
  RankBook ranks;
  Seconds heard{};  ///< when any of them was last heard
};

/// A requested pause: see job_pause.cc.
struct AskedPause {
  PauseRequest request;            ///< number 0 until `from` is known
  std::int64_t from = -1;          ///< first iteration that must not begin; -1 if not known yet
  std::uint64_t version = 0;       ///< of the first assignments with it; 0 if another server's
  std::vector<bool> knows = {};    ///< by rank: true if it has these assignments
  int known = 0;                   ///< number of ranks that have them
  bool bound = false;              ///< true if all ranks have them: the pause cannot move any more
  int moves = 0;                   ///< times it moved to a later iteration because some had not
  bool given_up = false;           ///< true if it is not requested any more after too many moves
  std::vector<bool> pausing = {};  ///< by rank: true if it waits
  int waiting = 0;                 ///< number of ranks that wait
  Seconds asked{};                 ///< time of the request
  std::optional<Seconds> paused = {};  ///< time since which all ranks wait, or have ended
  bool told = false;                   ///< true after the log entry that training does not pause

  bool is_placed() const { return from >= 0; }
};

struct Job::State : JobFigures {
  State(JobSpec given, Pipeline built, Seconds now);

  // The phase and its data; null if the job is in another phase.
  JobPhase phase_name() const;
  Profiling* profiling() { return std::get_if<Profiling>(&phase); }
  const Profiling* profiling() const { return std::get_if<Profiling>(&phase); }
  Running* running() { return std::get_if<Running>(&phase); }
  const Running* running() const { return std::get_if<Running>(&phase); }
  Observing* observing() { return std::get_if<Observing>(&phase); }
  const Observing* observing() const { return std::get_if<Observing>(&phase); }
  Probe* probe() { return running() == nullptr ? nullptr : std::get_if<Probe>(&running()->look); }
  SettlingStages* settling() {
    return running() == nullptr ? nullptr : std::get_if<SettlingStages>(&running()->look);
  }
  void end_probe();
  void end_settling();

  // Starts of training: job_starts.cc.
  bool is_of_this_start(const RankRegistration& registration, Seconds now) const;
  bool has_lost_its_place(const RankRegistration& registration) const;
  Result<RankEntry> enter(const RankRegistration& registration, Seconds now);
  Result<Gathering*> gathering_of(const RankRegistration& registration, Seconds now);
  const State* proposed(const std::string& specification) const;
  void forget_gatherings(Seconds now);
  bool is_silent(Seconds now) const { return ranks.all_silent(now - kSilence); }
  void ranks_complete(Seconds now);
  void started_again(RankBook book, Seconds now);
  void refuse(const std::string& who, const std::string& why, Seconds now, bool log_it);
  void add_event_of_others(JobEvent::Level level, Seconds now, std::string text);

  // Another specification: job_starts.cc.
  void succeed(State& before, Seconds now);
  void inherit_measured(const State& before);

  /// Returns the all-max clock of each stage; 0 if clocks are left as they are.
  std::vector<Megahertz> highest_clocks() const;
  std::int64_t newest_iteration() const {
    return collector.newest() >= 0 ? collector.newest() : newest_stored;
  }

  // Assignments: job_assignments.cc.
  int lead() const;
  int lead_after(Seconds under_way) const;
  void note_newest(const IterationReport& report, Seconds now);
  std::int64_t next_from() const {
    return collector.newest() < 0 ? 0 : collector.newest() + lead();
  }
  void deploy(Deployment deployment) { deploy(std::move(deployment), next_from()); }
  void deploy(Deployment deployment, std::int64_t from);
  void put(Deployment deployment, std::int64_t from);
  void push(Deployment deployment, std::int64_t from);
  void note_all_max_from();
  Deployment all_max_deployment() const;
  void deploy_all_max() { deploy(all_max_deployment()); }
  void deploy_profile();  ///< the clocks of the profiler's current block
  void deploy_choice(Seconds now, const std::string& why);
  void deploy_again();
  const Deployment* in_force(std::int64_t iteration) const;
  const Deployment* newest_before_pause() const;
  std::int64_t newest_from() const;
  const Deployment* with_version(std::uint64_t version) const;
  template <class Setting>
  std::vector<Setting> trained(const std::vector<Setting>& settings, int stage) const;
  StageAssignment assignments(const Deployment& deployment, int pipeline, int stage) const;
  void note_delivery(const IterationReport& report, const Deployment& due);
  /// Notes that a rank was heard after a silence of that length.
  void note_silence(const IterationReport& report, Seconds silence);

  // Iterations: job_iterations.cc.
  void finish(const FinishedIteration& iteration, Seconds now);
  void profile_iteration(const FinishedIteration& iteration, Seconds now);
  void note_missing_energy(Profiling& in, Seconds now);
  void relative_times(const FinishedIteration& iteration);
  std::vector<Seconds> latest_pipelines(const FinishedIteration& iteration) const;
  void note_whole(std::int64_t iteration);
  double compute_time(const FinishedIteration& iteration, int pipeline, int stage) const;
  double compute_energy(const FinishedIteration& iteration, int pipeline, int stage) const;
  double predicted_compute(const Deployment& by, int pipeline, int stage) const;
  void find_late();
  void note_energies(const FinishedIteration& iteration, const Deployment& by);
  void note_all_max(const FinishedIteration& iteration, Seconds time);
  void account_savings(const FinishedIteration& iteration, const Deployment& deployment,
                       Seconds time, Seconds now);
  double explained_by_plan(const FinishedIteration& iteration, const Deployment& deployment,
                           Seconds time) const;
  void forget_all_max();
  double explained_energy(int stage, Seconds time, double factor) const;
  AllMaxBaseline::Explained explained_energy() const;
  AllMaxBaseline::Explained explained_but_usual() const;
  double explained_energy(std::span<const double> factors, Seconds time) const;
  bool is_as_known(const WatchedPipeline& one) const;
  bool are_as_known() const;
  void watch_energy(const FinishedIteration& iteration, const Deployment& deployment, Seconds time);
  Seconds predicted_time(const Deployment& deployment) const {
    return deployment.choice.wait_until + overhead();
  }
  double predicted_energy(const plan::TablePlan& plan, int stage, Seconds time) const;

  // The pace: job_pause.cc.
  Objective aim() const;
  void note_pace(Seconds now);

  // Pauses: job_pause.cc.
  void ask_to_pause(Seconds now);
  /// Returns the first iteration whose check for a pause uses, on every rank, the assignments that
  /// are sent now. It relies on the progress that ranks state (`IterationReport::reached`), because
  /// their reports may be late, such as after an outage, or stay behind.
  std::int64_t first_to_hear() const {
    return std::max(collector.newest(), collector.reached() - 1) + lead();
  }
  void place_pause();
  void void_pause();
  void withdraw_pause(Seconds now);
  void tell_new_end();
  void follow_pause(const IterationReport& report, Seconds now);
  void move_pause(Seconds now);
  void note_pausing(const RankRegistration& registration, Seconds now);
  void note_paused(Seconds now);
  /// Returns true if all ranks are expected to have reached the pause.
  bool is_at_pause() const {
    return asked && asked->bound && collector.newest() + 1 == asked->from;
  }
  bool ended_to_pause() const { return asked && !ended && ranks.all_ended(); }
  /// Returns true if a withdrawn pause lies ahead. Assignments must not undo it, because some ranks
  /// may already be ending.
  bool holds_pause() const { return held_pause && collector.newest() < held_pause->from; }
  PauseState pause_state() const;
  void read_asked(Fields& stored);

  // Stragglers: job_stragglers.cc.
  void settle(const FinishedIteration& iteration);
  int iterations_to_settle() const;
  void settle_at_all_max(WatchedPipeline& one, std::int64_t iteration);
  void review(Seconds now);
  const WatchedPipeline* watched(int pipeline) const;
  WatchedPipeline* watched(int pipeline);
  WatchedPipeline& watch(int pipeline);
  bool is_slow(int pipeline) const;
  std::vector<double> factors_of(int pipeline) const;
  void refresh_factors();
  bool measure(WatchedPipeline& one);
  CharacterizeRequest own_plans_request(const WatchedPipeline& one) const;
  void ask_for_own_plans();
  void take_own_plans(WatchedPipeline& one, Result<plan::PlanTable> table, Seconds now);
  void declare(const plan::Straggler& straggler);
  void withdraw(int pipeline);
  std::vector<plan::SlowPipeline> slow_pipelines() const;
  std::vector<plan::Straggler> all_stragglers() const;

  // Stages: job_stages.cc.
  bool review_stages(Seconds now);
  std::vector<SlowStage> stages_to_review() const;
  bool settle_stages(const std::vector<SlowStage>& off, Seconds now, const std::string& why);
  bool measure_unsteady(Seconds now);
  bool note_rescaling(const StageCosts& costs, Seconds now, const std::string& why);
  bool is_held(int pipeline, int stage) const;
  bool may_be_unsteady(int pipeline, int stage) const;
  static InstructionProfile held_costs(InstructionProfile entry, double factor);
  Profile with_costs(const StageCosts& costs) const;
  void rescale(const StageCosts& costs, Seconds now, const std::string& why);

  // The promise: job_promise.cc.
  void plan_iteration(const FinishedIteration& iteration, const Deployment& deployment,
                      Seconds time, Seconds now);
  Seconds overhead() const;
  Seconds explained_by(std::span<const Seconds> computing) const;
  Seconds time_of_others() const;
  Seconds explained_usually() const;
  /// Returns the time that the newest iteration, with its own lateness, would take at all-max.
  Seconds explained_at_all_max() const { return std::max(explained_usually(), late_at_all_max); }
  Seconds all_max_time() const;
  double all_max_error() const;
  /// Returns true if the objective promises a time that iterations can exceed.
  bool promises_time() const { return allowed(Seconds{1}) > Seconds{0}; }
  Seconds allowed(Seconds fastest) const;
  double errors_needed() const;
  void relax(Seconds now);
  void probe_when_due(Seconds now);
  const WatchedPipeline* unseen_outside() const;
  void begin_probe(bool alarmed, Seconds now, const std::string& why);
  void log_probe(std::int64_t from, std::int64_t resumes, const std::string& why, Seconds now);
  void probe_iteration(const FinishedIteration& iteration, Seconds time, Seconds now);
  void judge(const Probe& done, Seconds now);
  double learn(const Probe& done);
  bool judge_outside(const Probe& done, Seconds now);
  void broken_promise(double by, Seconds now);
  void note_late_clocks(const FinishedIteration& iteration, const Deployment& deployment);
  bool learn_late_clocks(double by, Seconds now);
  void roll_back(Seconds now, const std::string& why);
  void hold(std::int64_t iterations, Seconds now, const std::string& why);
  void retry_when_due(Seconds now);

  // Profiling and planning: job_planning.cc.
  std::vector<std::vector<Megahertz>> clocks() const;
  void start_profiling(const std::vector<int>& stages, Seconds now, const std::string& why);
  void resume_profiling(Profiler::Kept kept, Seconds now, const std::string& why);
  void end_profiling(Seconds now);
  std::optional<Profiler::Kept> kept_profiling() const;
  Profile measured_profile() const;
  bool may_profile() const;
  std::vector<int> stages_to_measure(const Profile& known) const;
  bool loses_clocks() const;
  plan::ClockClient clock_client() const;
  bool fit_to_client(Seconds now);
  void plan_anew(JobEvent::Level level, Seconds now, const std::string& why);
  void fit_to_clocks(Seconds now);
  void take_profile(const Profile& from, std::vector<Watts> waiting);
  void request_plans(const Profile& from, std::vector<Watts> waiting, Seconds now);
  void request_given_profile(Seconds now);
  void ask_for_plans();
  bool fits(const plan::PlanTable& table) const;
  void take_plans(plan::PlanTable table, Seconds now);
  void improve_plans(plan::PlanTable table, Seconds now);
  CharacterizeRequest plans_request() const;
  bool has_objective_plan() const;
  void ask_for_objective_plan();
  void take_objective_plan(Result<plan::PlanTable> table, Seconds now);

  // Better plans: job_planning.cc.
  bool may_search() const;

  // Training that is only observed: job_planning.cc.
  Status check_sets_clocks() const;
  void begin_observing(Seconds now);
  void observe_iteration(const FinishedIteration& iteration);
  void take_estimate(std::uint64_t ticket, const Result<plan::PlanTable>& made);

  // Restoring from a snapshot: job_snapshot.cc.
  void read_wanted(Fields& fields, Diagnostics& diagnostics);
  void read_history(Fields& fields, Diagnostics& diagnostics, Seconds now);
  void read_costs(Fields& fields, Diagnostics& diagnostics);
  void go_on(JobPhase stored, Seconds now);
  void note_whether_set(const IterationReport& report, const Deployment* due, Seconds now);
  std::string drop_impossible_energies(IterationReport& report) const;
  int ranks_not_set() const;
  void add_event(JobEvent::Level level, Seconds now, std::string text);

  JobSpec spec;
  Pipeline pipeline;
  plan::ScheduleWork work;
  std::string specification;          ///< digest of `specification_text`
  std::string specification_text;     ///< as `job_spec_json` writes it
  bool specification_changed = true;  ///< true if it must be stored
  std::string incarnation;  ///< chosen at random; after each succession with a '.' and a count
  Phase phase;
  std::optional<JobPhase> asleep;  ///< stored phase; nullopt if awake, see `Job::go_on`
  Seconds heard{};
  std::optional<Seconds> ended;
  RankBook ranks;
  std::uint64_t start = 0;  ///< number of the start of training whose ranks these are; rises
  std::vector<Gathering> gatherings;
  struct Proposal {
    std::unique_ptr<State> state;
    Seconds heard{};
  };
  std::vector<Proposal> proposals;
  std::vector<Refusal> refusals;  ///< oldest first
  int events_of_others = 0;       ///< caused by other clients since `others_counted_since`
  Seconds others_counted_since{};
  IterationCollector collector;
  std::shared_ptr<const plan::PlanTable> plans;
  std::optional<Profile> profile;  ///< from which `plans` was made, or is being made
  // Derived from `profile`:
  std::optional<plan::PipelineTimes> times;
  Seconds usual_time{};                  ///< of a pipeline at all-max
  std::vector<Megahertz> highest_known;  ///< clock of each stage
  std::vector<Seconds> fastest_time;     ///< of each stage's computations at all-max
  std::vector<Joules> fastest_energy;    ///< of each stage's computations at all-max, per GPU
  plan::ClockClient plans_for = plan::ClockClient::kAny;  ///< of `plans`, made or requested
  std::vector<std::vector<MeasuredClock>> measured;       ///< by the last profiler that finished
  std::vector<Megahertz> highest_measured;  ///< of each stage's GPUs when it was measured
  bool plans_due = false;  ///< true if first or better plans from `profile` are requested
  StragglerDetector detector;
  LateClocks late_clocks;
  DriftWatch drift;

  std::deque<Deployment> deployments;  ///< by rising version
  std::uint64_t version = 0;           ///< newest version ever
  std::uint64_t judged_from = 0;       ///< version from which iterations compare with `profile`
  std::uint64_t ticket = 0;            ///< of the newest request for plans
  std::uint64_t plans_ticket = 0;      ///< of the newest request for `plans`
  std::uint64_t objective_ticket = 0;  ///< of the request for an objective plan; 0 if none runs
  std::uint64_t search_ticket = 0;     ///< of the search for a better objective plan
  std::optional<Objective> objective_asked;  ///< `aim` at the last request for an objective plan
  bool redeploy = false;  ///< true until it is known in which iteration the ranks are

  std::vector<plan::Straggler> declared_stragglers;
  std::vector<WatchedPipeline> watched_pipelines;  ///< by pipeline
  std::optional<Pace> pace;
  Seconds pace_logged{};  ///< iteration time of the pace as last logged; 0 if none
  std::optional<AskedPause> asked;
  std::uint64_t pauses = 0;              ///< number of the newest pause
  std::optional<AskedPause> held_pause;  ///< see `withdraw_pause`
  std::deque<double> newest_times;       ///< of iterations
  Seconds newest_since{};                ///< when the newest iteration was first reported
  int prompt_reports = 0;  ///< first reports of iterations, in a row, that arrived without delay
  Seconds newest_event{};  ///< time of the newest event
  Seconds delivery{kUsualDelivery};  ///< time allowed for assignments to reach all ranks
  std::uint64_t late_version = 0;    ///< newest version that reached some rank late
  std::int64_t on_time_since = 0;    ///< iteration since which no version was late
  /// By rank: true if it was out of reach and has not run by the assignments in force since.
  std::vector<bool> away;

  AllMaxBaseline baseline;
  std::optional<std::int64_t> newest_all_max;  ///< the newest iteration in `baseline`; not stored
  PromiseGuard guard;
  bool review_due = false;  ///< true if slow pipelines have changed since the last decision
  std::int64_t next_probe = 0, probe_pause = 0;  ///< iterations
  int probes_in_vain = 0;                        ///< probes without a result, in a row
  std::int64_t newest_whole = -1;  ///< newest iteration reported by all ranks by one version
  std::int64_t whole_again = -1;   ///< first such iteration after a long gap; -1 if none
  std::int64_t warm_from = -1;     ///< first iteration after the warm-up; -1 if none has ended
  std::int64_t calm_since = 0;     ///< iteration since which the promise was kept
  std::int64_t calm = kUsualCalm;  ///< iterations of kept promise until `reserve` decreases
  std::int64_t energy_from = 0;    ///< iteration from which drift of energy counts
  std::int64_t faster_from = 0;    ///< iteration from which faster stages count
  std::vector<std::deque<double>> energy_ratios;  ///< of each stage's computations, over `profile`

  /// Iteration from which plans are tried again after they broke the promise. Until then the job
  /// runs at all-max, even if training starts again. Nullopt if plans are in force.
  std::optional<std::int64_t> retry_at;
  int rollbacks = 0;                  ///< each makes the next one longer; decreases after calm
  std::vector<Rescaling> rescalings;  ///< recent ones
  int holds = 0;                      ///< times in a row that rescalings led to all-max
  std::vector<Finding> findings;      ///< recent ones
  /// By stage: costs before its GPUs were held to a clock.
  std::map<int, std::vector<InstructionProfile>> unheld;
  /// For each group, one bit for each of the newest iterations: set if the group was held to a
  /// clock. Empty before the first such iteration.
  std::vector<std::uint8_t> held;
  std::int64_t profiling_began = 0, last_profiling = 0;  ///< its first and last iteration
  Savings savings;
  Joules reported_energy{};
  std::int64_t newest_stored = -1;  ///< newest iteration when the job was stored
  Seconds saved_stored{};           ///< when savings last caused a snapshot
  Seconds created{};
  Seconds taken_up{};  ///< when this server took over the job
  bool silence_logged = false, not_set_logged = false, stalls_logged = false;
  std::map<std::size_t, int> not_set;  ///< by rank: reports in a row with clocks that were not set

  JobEffects effects;
  std::vector<float> relative;  ///< scratch: of each group, computation time over prediction
  Seconds late_at_all_max{};    ///< scratch: makespan of the latest pipeline at all-max; 0 if none

  static constexpr std::int64_t kNever = 9'000'000'000'000'000;  ///< iteration
  static constexpr Seconds kUsualDelivery{0.25};
  static constexpr std::int64_t kUsualCalm = 1000;
  static constexpr std::int64_t kChangesWithin = 500;  ///< iterations; older changes do not count

  /// Returns the iterations at all-max after a change that follows `changes` others.
  static std::int64_t pause_after(int changes) {
    constexpr int kMostDoublings = 4;
    return std::int64_t{20} << std::min(changes, kMostDoublings);
  }
};

}  // namespace harpe::training
