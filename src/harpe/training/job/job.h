#pragma once
/// \file
/// A training job: its phases, its ranks and the clocks assigned to them.
///
///   registering -> profiling -> characterizing -> running <-> straggling
///               -> observing    if `JobSpec::observe`: no clock is set
///
/// A job is a state machine without I/O, so that its life can be replayed: its input is events, its
/// output is assignments for ranks and effects for the server. It reads no clock. The caller passes
/// `now`, in seconds of a steady clock that also advances while no server runs; its zero does not
/// matter, nor do the clocks of ranks.
///
/// A job that was read from a store is asleep: it can be viewed in its stored state until `go_on`.
/// From then on, all its ranks have the full `kSilence` to report again. A job ends when all its
/// ranks have ended in order; a rank that registers later begins another start of training.
///
/// Assignments. Every change of clocks is a new version, with the iteration from which it holds on
/// all ranks of all pipelines. Ranks report an iteration after its end. In synchronous training no
/// rank is then more than one iteration ahead, so a change holds from the second iteration after
/// the newest reported one, or later if delivery takes longer than an iteration.
///
/// Starts of training. Training that starts again has other processes, with or without the same run
/// name. Their ranks gather without places until they are more than half of the job's ranks, or
/// until all ranks with places are silent or have ended; then they take over. So a stray process
/// changes nothing. Another specification under the job's id takes over in the same way
/// (`propose`); the parts that it has in common with the one before are kept. A rank that has lost
/// its place cannot take it back while others train.
///
/// Incarnations. Each life of a job has a name, its incarnation, within which versions rise. Ranks
/// receive it when they register, and exchange no assignments or reports with another life.
///
/// The promise. The objective is kept relative to all-max on the machines in their present state:
/// the time that iterations would take without Harpe. This is measured before profiling, and for a
/// few iterations now and then. If iterations take longer than the objective allows, the job logs
/// it, runs at all-max for some iterations and looks for the cause.
///
/// Stragglers. A pipeline whose computations take longer than in the profile, at any stage, has
/// costs of its own. It runs at all-max until these are measured, then by the plan of least energy
/// for them. Its least time T_p is computed from the whole graph. All pipelines end by T' = max(the
/// time of the objective, max T_p), the healthy ones by the plan of least energy for T' (Perseus,
/// SOSP'24, sections 4 and 5). A declared delay beyond a straggler's computations is assumed to be
/// true until some iterations at all-max show otherwise.
///
/// Errors are returned (`kInvalidInput`, `kConflict`, `kNotFound`) and change nothing but counters,
/// refusals and the times when ranks were heard. Not thread-safe.
///
/// Events of ranks are O(1) amortised, the last report of an iteration is O(ranks), and decisions
/// on stragglers are O(pipelines log plans).

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/instruction/asking_ahead.h"
#include "harpe/plan/policy/plan_choice.h"
#include "harpe/plan/policy/plan_table.h"
#include "harpe/training/job/observation.h"
#include "harpe/training/job/profiler.h"
#include "harpe/training/job/reported_use.h"
#include "harpe/training/job/straggler_detector.h"
#include "harpe/training/wire/job_spec.h"
#include "harpe/training/wire/rank_events.h"

namespace harpe::training {

enum class JobPhase : unsigned char {
  kRegistering,
  kProfiling,
  kCharacterizing,
  kRunning,
  kStraggling,
  kObserving,
};
const char* name_of(JobPhase phase);

/// A request to make plans (`make_plans`), which the caller runs elsewhere. The result is passed to
/// `Job::characterized` with the same ticket; if it takes long, quick plans are passed first.
struct CharacterizeRequest {
  std::uint64_t ticket = 0;
  Profile profile;
  /// Profile for `TablePlan::compute_time` and `compute_energy`, if not `profile`.
  std::optional<Profile> compare_with = {};
  std::vector<Watts> blocking_power;  ///< of each stage
  /// See `PlanTable::Options`. Empty: the number of plans in the job's specification.
  std::vector<Seconds> times = {};
  std::optional<Objective> objective = {};  ///< of one pipeline, see `PlanTable::Options`
  /// True if no plans along the frontier are made, and the one for the objective with full effort.
  bool only_objective = false;
  /// Fraction by which plans assume that instructions take longer at any setting except all-max.
  /// Such plans keep their time if instructions are late now and then.
  double reserve = 0;
  /// The client that requests clocks. Plans count the part of the job's `switch_latency` that
  /// remains with this client.
  plan::ClockClient client = plan::ClockClient::kAny;
  /// The least latency that plans count, learned from the times of computations (late_clocks.h).
  Seconds learned_latency{0};
};

/// The plan that a pipeline runs, with the input of `Frontier::plan_of_clocks`.
struct PlanInForce {
  CharacterizeRequest made_from;
  std::vector<std::vector<Megahertz>> clocks;  ///< as in `TablePlan`
  Seconds wait_until{};                        ///< T' of the job; 0 if it waits for nothing
  std::vector<std::vector<Knobs>> knobs = {};  ///< as in `TablePlan`
};

/// An event for the log of the job.
struct JobEvent {
  enum class Level : unsigned char { kInfo, kWarning };
  Level level = Level::kInfo;
  Seconds at{};
  std::string text;
};

/// The pace that carbon or price control sets from outside the job, hour by hour.
struct Pace {
  /// Replaces the time of the objective. Nullopt: the objective holds.
  std::optional<Seconds> iteration_time = {};
  bool pause = false;                   ///< true if ranks are requested to pause
  std::optional<Seconds> resumes = {};  ///< expected end of the pause, since 1970 by wall clocks
  std::string why = {};                 ///< reason, for display: "412 g/kWh"
  friend bool operator==(const Pace&, const Pace&) = default;
};

/// Actions that the caller must take after events.
struct JobEffects {
  std::optional<CharacterizeRequest> characterize;
  /// Requests for one straggler or a new objective, in addition to `characterize`.
  std::vector<CharacterizeRequest> more_plans;
  bool assignments = false;  ///< new assignments must be sent to ranks
  bool save = false;         ///< `snapshot` has changes that must not be lost
  bool plans = false;        ///< `plans()` has changed
  std::vector<JobEvent> events;
  std::vector<ReportedUse> used;  ///< one for each report that counts
};

/// The result of a registration.
struct RankEntry {
  int rank = 0;
  std::uint64_t start = 0;  ///< number of the start in which the rank holds its place, from 1
  /// True if the rank has no place yet: `present` of the `all` ranks of its start have registered.
  /// It should register again soon.
  bool gathers = false;
  int present = 0, all = 0;
  std::string why = {};  ///< reason for display, if it gathers
};

/// Refused requests of a rank or another client.
struct Refusal {
  std::string who;  ///< "pipeline 0, stage 1, tensor shard 0 (run 'x')"
  std::string why;
  std::int64_t count = 0;
  Seconds at{};  ///< time of the last one
};

/// A pipeline by the newest assignments.
struct PipelineState {
  int pipeline = 0;
  double factor = 1;  ///< of a straggler, declared or detected
  bool planned = false;
  plan::PlanRef plan;  ///< valid if `planned`
  Seconds time{};      ///< of that plan
  Joules energy{};
  std::optional<double> gap = {};  ///< see `TablePlan::gap`
  bool for_objective = false;      ///< true if the plan was made for exactly the job's objective
};

/// The state of a requested pause.
struct PauseState {
  enum class Is : unsigned char {
    kNone,         ///< no pause is requested
    kAsked,        ///< ranks have not reached it yet
    kPaused,       ///< ranks wait, or all have ended and are expected to start again
    kNotFollowed,  ///< training continues without pausing, or some ranks cannot be informed
  };
  Is is = Is::kNone;
  std::int64_t from = -1;  ///< first iteration that training must not begin; -1 if not known yet
  int waiting = 0;         ///< number of ranks that wait
  bool ended = false;      ///< true if all ranks have ended, so that none occupies machines
  Seconds since{};         ///< time of the request, or of the begin of the pause
};
/// Returns "none", "asked", "paused" or "not_followed".
const char* name_of(PauseState::Is is);

struct ReportCounts {
  std::int64_t reports = 0;         ///< accepted
  std::int64_t reports_unused = 0;  ///< accepted, but repeated, late, or far from all others
  std::int64_t reports_refused = 0;
  std::int64_t energies_refused = 0;  ///< reports that count, with a reason in `ReportTaken`
  std::int64_t assignments_late = 0;  ///< versions that did not reach all ranks in time
};

/// Figures of a job that its status shows unchanged.
struct JobFigures : ReportCounts {
  Objective objective;
  std::vector<Watts> blocking_power;  ///< of each stage; empty if not known
  double reserve = 0;                 ///< of the plans, see `CharacterizeRequest`
  Seconds iteration_time{};           ///< median of the newest iterations
};

struct JobStatus : JobFigures {
  JobPhase phase = JobPhase::kRegistering;
  int ranks_registered = 0;
  int ranks_not_set = 0;               ///< ranks whose clocks are not set: no agent, or it refuses
  std::int64_t newest_iteration = -1;  ///< -1 if none was reported
  std::uint64_t version = 0;           ///< of the newest assignments
  PauseState pause;
  bool synthetic = false;  ///< true if the profile is synthetic or any GPU is simulated
  std::optional<ProfilingProgress> profiling;
  std::vector<plan::Straggler> stragglers;
  std::vector<SlowStage> slow_stages;
  std::vector<SlowWorker> slow_workers;
  std::optional<RandomLateness> random;
  /// Iteration until which the job runs at all-max because plans did not keep the promise.
  std::optional<std::int64_t> rolled_back_until;
  Seconds predicted_time{};  ///< of an iteration by the newest plan; 0 if there is none
  /// Of one pipeline in an iteration, as measured at all-max; 0 if not measured yet.
  Seconds measured_all_max_time{};
  Joules measured_all_max_energy{};
  /// Time of an iteration on the machines in their present state without Harpe; 0 if not known.
  Seconds all_max_time{};
  /// Mean time of the newest iterations by the plan over the time that the objective allows; 0 if
  /// there are none yet.
  double time_over_allowed = 0;
  std::int64_t stalls = 0;  ///< iterations delayed outside of computations
  /// Energy saved since planning by all pipelines, compared with the same iterations at all-max.
  Joules saved{};
  Joules energy{};                      ///< reported by ranks since the job was registered
  Joules saved_error{};                 ///< half-width of the 95 % interval of `saved`
  Seconds wait_until{};                 ///< T' while straggling
  std::vector<Refusal> refused;         ///< recent ones, at most `Job::kMostRefusals`
  std::optional<ObservedJob> observed;  ///< nullopt unless the job is only observed
};

/// The result of an accepted report.
struct ReportTaken {
  /// Why some of its energies count as not measured: they are higher or lower than a GPU can use.
  /// Empty if all count.
  std::string energy_refused;
};

/// A job as texts for a store. The state changes with every event, a part only with its subject.
struct JobTexts {
  std::string state = {};
  std::map<std::string, std::string> parts = {};  ///< by name
  Seconds heard{};  ///< when its ranks were last heard, if later than in the state
};
/// The name of the part that holds `job_spec_json`.
inline constexpr const char* kSpecificationPart = "specification";

class Job {
 public:
  /// \param incarnation  chosen at random, without a '.'; empty for a job without ranks elsewhere
  static Result<Job> create(JobSpec spec, Seconds now, std::string incarnation = {});
  Job(Job&&) noexcept;
  Job& operator=(Job&&) noexcept;
  ~Job();

  // Events of ranks.
  /// Registers a rank. Fails with `kConflict` if another process of the same start holds the place
  /// and was heard within `kSilence`, or if a newer start has taken the place; with `kNotFound` if
  /// the rank trains by a specification that was not proposed.
  Result<RankEntry> register_rank(const RankRegistration& registration, Seconds now);
  /// Adds a report. Fails with `kConflict` if the session does not hold the place (any more, or
  /// yet), or holds it in another life of the job.
  Result<ReportTaken> report(const IterationReport& report, Seconds now);
  /// Ends a rank whose training has ended in order. Fails with `kConflict` if the session does not
  /// hold the place. If all ranks end while a pause is requested, the job is paused, not ended.
  Status end_rank(const RankEnd& end, Seconds now);
  /// Notes that a rank is alive by other evidence, such as an open connection.
  void hear(Seconds now);

  // Events of users and infrastructure.
  enum class Proposed : unsigned char {
    kSame,     ///< it is the job's specification already
    kTaken,    ///< it is the job's specification now, because no rank was heard
    kGathers,  ///< it takes over when more than half of its ranks have registered
  };
  /// Proposes another specification under this job's id. \param next  as `create` makes it
  Proposed propose(Job next, Seconds now);
  /// Proposes a specification again; nullopt if it has been forgotten since.
  std::optional<Proposed> propose_again(const std::string& specification, Seconds now);
  /// Notes that a client's request to this job was refused before it reached the job.
  void refused(const std::string& who, const std::string& why, Seconds now);
  Status set_straggler(const plan::Straggler& straggler, Seconds now);
  /// Declares the pipeline healthy, if it is a straggler, declared or detected.
  Status clear_straggler(int pipeline, Seconds now);
  Status set_objective(const Objective& objective, Seconds now);
  /// Sets the pace until the next call: its iteration time acts as a deadline. If no plan meets it,
  /// the nearest plan is used; a power cap is never exceeded. A pause is requested from an
  /// iteration far enough ahead that the request reaches all ranks before they get there.
  /// \param pace  nullopt: the objective holds again
  Status set_pace(const std::optional<Pace>& pace, Seconds now);

  /// Takes the result of a `CharacterizeRequest`; an old ticket is ignored.
  /// \param better_follow  these are quick plans: a table that is nowhere worse follows with the
  ///                       same ticket. If plans are in force, quick plans are ignored.
  void characterized(std::uint64_t ticket, Result<plan::PlanTable> plans, Seconds now,
                     bool better_follow = false);
  /// Takes a plan that a search by `search_request` has found, if it is still for the same
  /// objective and saves at least `SearchCourse::kWorthwhile` of the energy.
  /// \param better  the job's plans, with the found plan in place of the one before
  /// \returns  true if it was taken
  bool found_better(std::uint64_t ticket, std::shared_ptr<const plan::PlanTable> better,
                    Seconds now);
  /// Must be called about once a second. Ends declared stragglers and gatherings whose time is
  /// over, and drops detected stragglers if ranks are silent.
  void tick(Seconds now);

  /// Returns the effects since the last call.
  JobEffects take_effects();

  // Views.
  const JobSpec& spec() const;
  JobPhase phase() const;
  const std::optional<Pace>& pace() const;
  PauseState pause() const;
  /// Returns the newest iteration reported in this start of training; -1 if none.
  std::int64_t newest_iteration() const;
  /// Returns the time of an iteration beyond its pipelines; 0 if not measured yet.
  Seconds overhead() const;
  JobStatus status() const;
  std::vector<PipelineState> pipelines() const;
  /// Returns the assignments in force and the later ones, oldest first, at most `kMostPending` + 1.
  std::vector<StageAssignment> assignments(int pipeline, int stage) const;
  std::uint64_t version() const;         ///< of the newest assignments
  const plan::PlanTable* plans() const;  ///< null before the first characterization
  /// Returns the costs of instructions that are known so far; may be empty.
  Profile profile() const;
  std::vector<RankCoordinates> missing(std::size_t most) const;  ///< places that no rank holds
  int registered() const;                                        ///< ranks that hold places
  /// Returns the estimated bytes of registered ranks, including those of a new start that gathers.
  std::size_t rank_memory() const;
  /// Returns the bytes that this registration may add.
  std::size_t memory_to_register(const RankRegistration& registration, Seconds now) const;
  std::uint64_t start() const;  ///< number of the start whose ranks hold places, from 1; 0 if none
  /// Returns the number of ranks that hold places, have not ended, and were not heard within
  /// `kUnheard`, nor since this server took over the job if that is shorter: it is not known if a
  /// change reaches them. O(ranks).
  int unheard(Seconds now) const;
  /// Returns the digest of the specification, by which ranks state the job that they train.
  const std::string& specification() const;
  const std::string& specification_text() const;  ///< as `job_spec_json` writes it
  const std::string& incarnation() const;         ///< this life of the job
  const std::string& run() const;                 ///< the start of training whose ranks hold places
  /// Returns the session that holds the place; empty if none does.
  const std::string& session(RankCoordinates coordinates) const;
  Seconds heard() const;  ///< when any rank was last heard; the job's creation if never
  std::optional<Seconds> ended() const;  ///< when all ranks had ended in order; nullopt if not yet
  std::shared_ptr<const plan::PlanTable> shared_plans() const;
  /// Returns the plan by the newest assignments. Fails with `kNotFound` if there is no such
  /// pipeline, or no plan yet.
  Result<PlanInForce> plan_in_force(int pipeline) const;
  /// Returns the request for the plans that are needed now, with the newest ticket.
  CharacterizeRequest characterize_request() const;
  /// Returns the ticket of the search for a better plan; 0 if there is nothing to search for now. A
  /// new ticket means that the search must begin again.
  std::uint64_t search_ticket() const;
  CharacterizeRequest search_request() const;  ///< only for the job's objective

  // Texts for a store. They contain everything except the reports of the last iterations, the ranks
  // that gather, and the plans, which are stored separately (`PlanTable::stored_text`).
  std::string snapshot() const;  ///< `JobTexts::state`; short for any number of ranks
  /// Returns the parts that have changed since the last call.
  std::map<std::string, std::string> take_changed_parts();
  JobTexts texts() const;
  /// Restores a job. Unknown members, which a newer Harpe wrote, are ignored.
  static Result<Job> read(JobTexts texts, std::optional<plan::PlanTable> plans, Seconds now);
  bool asleep() const;
  /// Wakes a job that is asleep: it resumes its work, such as profiling or planning.
  void go_on(Seconds now);

  static constexpr Seconds kSilence{60};
  /// Longer than the 20 s within which a rank of Harpe's client sends at least one request.
  static constexpr Seconds kUnheard{25};
  static constexpr int kMostPending = 6;
  static constexpr std::size_t kMostRefusals = 16;

 private:
  struct State;
  explicit Job(std::unique_ptr<State> state);
  Result<RankEntry> gather(const RankRegistration& registration, Seconds now);
  std::unique_ptr<State> state_;
};

}  // namespace harpe::training
