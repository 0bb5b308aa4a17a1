#pragma once
/// \file
/// One training job's life, from the first rank that registers to a straggler and back.
///
///   registering -> profiling -> characterizing -> running <-> straggling
///               -> observing    where its specification says so: nothing is set
///
/// A state machine without input or output: events go in, assignments for ranks and effects for the
/// server come out, so that a life can be replayed. Nothing here reads a clock: `now` is in seconds
/// of a clock that rises evenly, also while no server runs; its zero, and clocks of ranks, do not
/// matter.
///
/// A job that was read from a store is asleep: it is as it was stored, and can be looked at, until
/// `go_on`, from when all its ranks have the whole time of silence to be heard again. All ranks
/// that have ended in order end it; one that registers afterwards begins another start of training.
///
/// Assignments. Every change of clocks is a new version, with the iteration from which it holds on
/// all ranks of all pipelines. Ranks report an iteration when it has ended; in synchronous training
/// none is then more than one ahead, so a change holds from two after the newest reported one, or
/// later where delivery takes longer than an iteration.
///
/// Starts of training. Training that starts again, under whatever name, has other processes: its
/// ranks hold no places at first, but gather until they are more than half of the job's, or the
/// ranks that hold places are silent or have ended; then they take over. So a stray process changes
/// nothing. The same goes for another specification under the job's id (`propose`): what it has in
/// common with the one before goes on. A rank that held a place before, and lost it, cannot take it
/// back while others train.
///
/// Incarnations. Versions rise within one life of a job, which has a name of its own. Ranks learn
/// it when they register, and take nothing and tell nothing of another life.
///
/// The promise. The objective is kept against all-max of the machines as they are: what iterations
/// would take without Harpe, which is measured before profiling and for some iterations now and
/// then. Where iterations take longer than that allows, the job goes to all-max, says so, and finds
/// out why.
///
/// Stragglers. A pipeline whose computations take longer than the profile says, at any stage, has
/// costs of its own. It runs at all-max until they have been measured there, then the plan of least
/// energy for them. Its least time T_p follows from the whole graph; all pipelines are through by
/// T' = max(the time of the objective, max T_p), the healthy ones by the plan of least energy for
/// that (Perseus, SOSP'24, sections 4 and 5). What is declared of a straggler beyond its
/// computations is believed until some iterations at all-max show otherwise.
///
/// Errors go to the caller (`kInvalidInput`, `kConflict`, `kNotFound`) and leave the job
/// as it was. Not thread-safe. Events of ranks are O(1) amortised (the last report of an iteration
/// O(ranks)); decisions on stragglers O(pipelines log plans).

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

/// Work to be done elsewhere: `make_plans`. Its result comes back as `Job::characterized` with the
/// same ticket, quick plans first where that takes long.
struct CharacterizeRequest {
  std::uint64_t ticket = 0;
  Profile profile;
  /// From which `TablePlan::compute_time` and `compute_energy` are counted, where it is another.
  std::optional<Profile> compare_with = {};
  std::vector<Watts> blocking_power;  ///< one a stage
  /// See `PlanTable::Options`; empty: as the specification of the job says.
  std::vector<Seconds> times = {};
  std::optional<Objective> objective = {};  ///< of one pipeline, see `PlanTable::Options`
  /// No plans along the frontier, and the one for the objective as good as it gets.
  bool only_objective = false;
  /// Slow clocks are planned with as if instructions took this share longer: plans that hold where
  /// instructions are late now and then.
  double reserve = 0;
  /// The client that asks for clocks. Plans count what it leaves of the job's `switch_latency`.
  plan::ClockClient client = plan::ClockClient::kAny;
  /// The least latency that plans count, learned from what computations take (late_clocks.h).
  Seconds learned_latency{0};
};

/// What a pipeline runs, and from what that was made: enough for `Frontier::plan_of_clocks`.
struct PlanInForce {
  CharacterizeRequest made_from;
  std::vector<std::vector<Megahertz>> clocks;  ///< as in `TablePlan`
  Seconds wait_until{};                        ///< T' of the job; 0: nothing is waited for
  std::vector<std::vector<Knobs>> knobs = {};  ///< as in `TablePlan`
};

/// Something that a person should know.
struct JobEvent {
  enum class Level : unsigned char { kInfo, kWarning };
  Level level = Level::kInfo;
  Seconds at{};
  std::string text;
};

/// How fast a job is to go, as decided outside of it hour by hour: by the carbon intensity of its
/// grid, or a price.
struct Pace {
  /// In place of what the objective says; none: the objective holds.
  std::optional<Seconds> iteration_time = {};
  bool pause = false;                   ///< ranks are asked to pause
  std::optional<Seconds> resumes = {};  ///< since 1970, by wall clocks: when that should end
  std::string why = {};                 ///< for people: "412 g/kWh"
  friend bool operator==(const Pace&, const Pace&) = default;
};

/// What has to be done outside after events.
struct JobEffects {
  std::optional<CharacterizeRequest> characterize;
  /// For one straggler, or for a new objective, beside `characterize`.
  std::vector<CharacterizeRequest> more_plans;
  bool assignments = false;  ///< there are new ones, to be sent to ranks
  bool save = false;         ///< `snapshot` holds something that must not be lost
  bool plans = false;        ///< `plans()` is new
  std::vector<JobEvent> events;
  std::vector<ReportedUse> used;  ///< one each report that counts
};

/// What became of a registration.
struct RankEntry {
  int rank = 0;
  std::uint64_t start = 0;  ///< of training in which it holds its place, counted from 1
  /// It holds none yet: `present` ranks of its start are there, of the `all` that it has. To be
  /// asked again soon.
  bool gathers = false;
  int present = 0, all = 0;
  std::string why = {};  ///< for people, where it gathers
};

/// A rank, or another client, that asks for what it cannot have.
struct Refusal {
  std::string who;  ///< "pipeline 0, stage 1, tensor shard 0 (run 'x')"
  std::string why;
  std::int64_t count = 0;
  Seconds at{};  ///< the last one
};

/// What a pipeline runs by the newest assignments.
struct PipelineState {
  int pipeline = 0;
  double factor = 1;  ///< of a straggler, declared or detected
  bool planned = false;
  plan::PlanRef plan;  ///< where it is planned
  Seconds time{};      ///< of that plan
  Joules energy{};
  std::optional<double> gap = {};  ///< see `TablePlan::gap`
  bool for_objective = false;      ///< the plan was made for just the job's objective
};

/// What has become of a pause that ranks are asked for.
struct PauseState {
  enum class Is : unsigned char {
    kNone,         ///< not asked for
    kAsked,        ///< ranks have not got there yet
    kPaused,       ///< ranks wait, or have ended to be started again later
    kNotFollowed,  ///< training goes on nevertheless, or some ranks cannot be told
  };
  Is is = Is::kNone;
  std::int64_t from = -1;  ///< the first iteration that training is not to begin; -1: not known yet
  int waiting = 0;         ///< ranks that wait
  bool ended = false;      ///< all ranks have ended meanwhile: none holds machines
  Seconds since{};         ///< asked, or paused
};
/// "none", "asked", "paused" or "not_followed".
const char* name_of(PauseState::Is is);

struct ReportCounts {
  std::int64_t reports = 0;         ///< accepted
  std::int64_t reports_unused = 0;  ///< of those, repeated, late, or far from all others
  std::int64_t reports_refused = 0;
  std::int64_t energies_refused = 0;  ///< of reports that count, see `ReportTaken`
  std::int64_t assignments_late = 0;  ///< versions that did not reach all ranks in time
};

/// Figures of a job that its status shows unchanged.
struct JobFigures : ReportCounts {
  Objective objective;
  std::vector<Watts> blocking_power;  ///< one a stage, as far as it is known; empty: it is not
  double reserve = 0;                 ///< of the plans, see `CharacterizeRequest`
  Seconds iteration_time{};           ///< median of the newest iterations
};

struct JobStatus : JobFigures {
  JobPhase phase = JobPhase::kRegistering;
  int ranks_registered = 0;
  int ranks_not_set = 0;               ///< ranks whose clocks are not set: no agent, or it refuses
  std::int64_t newest_iteration = -1;  ///< -1: none reported
  std::uint64_t version = 0;           ///< of the newest assignments
  PauseState pause;
  bool synthetic = false;  ///< its profile is, or GPUs are simulated: no figures of real GPUs
  std::optional<ProfilingProgress> profiling;
  std::vector<plan::Straggler> stragglers;
  std::vector<SlowStage> slow_stages;
  std::vector<SlowWorker> slow_workers;
  std::optional<RandomLateness> random;
  /// Iteration until which it is all-max, as plans did not keep the promise.
  std::optional<std::int64_t> rolled_back_until;
  Seconds predicted_time{};  ///< of an iteration by the newest plan; 0: none
  /// Measured at all-max, of one pipeline; 0: not yet.
  Seconds measured_all_max_time{};
  Joules measured_all_max_energy{};
  Seconds
      all_max_time{};  ///< of an iteration of the machines as they are, without Harpe; 0: unknown
  /// Newest iterations by the plan, over what the objective allows them; 0: none yet.
  double time_over_allowed = 0;
  std::int64_t stalls = 0;  ///< iterations held up outside of computations
  /// Since planning, against the same iterations at all-max, all pipelines.
  Joules saved{};
  Joules energy{};                      ///< reported by ranks since the job was registered
  Joules saved_error{};                 ///< half-width of its 95 % interval
  Seconds wait_until{};                 ///< T' while straggling
  std::vector<Refusal> refused;         ///< lately, at most `Job::kMostRefusals`
  std::optional<ObservedJob> observed;  ///< of a job that is only observed
};

/// A report that is accepted.
struct ReportTaken {
  /// Why its energies, or some of them, count as not measured: no GPU can use so much, or so
  /// little. Empty: they count.
  std::string energy_refused;
};

/// A job as texts, each of which changes at another time: its state with everything that happens,
/// parts with what they are about.
struct JobTexts {
  std::string state = {};
  std::map<std::string, std::string> parts = {};  ///< by name
  Seconds heard{};  ///< when its ranks were last heard of, where that is later than in the state
};
/// The name of the part that holds `job_spec_json`.
inline constexpr const char* kSpecificationPart = "specification";

class Job {
 public:
  /// \param incarnation  chosen at random, without a '.'; empty: of a job without ranks elsewhere
  static Result<Job> create(JobSpec spec, Seconds now, std::string incarnation = {});
  Job(Job&&) noexcept;
  Job& operator=(Job&&) noexcept;
  ~Job();

  // Events of ranks.
  /// `kConflict` where another process of the same start holds the place and has been heard of
  /// within `kSilence`, or a newer start has taken it; `kNotFound` where the rank trains by a
  /// specification that was not proposed.
  Result<RankEntry> register_rank(const RankRegistration& registration, Seconds now);
  /// `kConflict` where the session does not hold the place any more, or not yet, or holds it in
  /// another life of the job.
  Result<ReportTaken> report(const IterationReport& report, Seconds now);
  /// The rank's training has ended as it should. `kConflict` where the session does not hold it.
  /// Where all ranks end while they are asked to pause, the job is paused, and has not ended.
  Status end_rank(const RankEnd& end, Seconds now);
  /// A rank has been heard of by other ways, such as a connection that stands.
  void hear(Seconds now);

  // Events of people and infrastructure.
  enum class Proposed : unsigned char {
    kSame,     ///< it is the job's
    kTaken,    ///< it is now: no rank was heard of
    kGathers,  ///< it will be once more than half of its ranks are there
  };
  /// Another job is to be trained under this one's id. \param next  as `create` makes it
  Proposed propose(Job next, Seconds now);
  /// The same of one that was made before; nothing where it was forgotten since.
  std::optional<Proposed> propose_again(const std::string& specification, Seconds now);
  /// A client that wanted something of this job was refused before the job was asked.
  void refused(const std::string& who, const std::string& why, Seconds now);
  Status set_straggler(const plan::Straggler& straggler, Seconds now);
  /// Healed, whether declared or detected.
  Status clear_straggler(int pipeline, Seconds now);
  Status set_objective(const Objective& objective, Seconds now);
  /// The job moves along its frontier: iterations take the pace's time, as if that were a deadline.
  /// One that no plan meets gets the nearest plan, and a power cap is never exceeded. Holds until
  /// another one is set. A pause is asked for from an iteration that all ranks will have heard of
  /// before they are there. \param pace  none: by its objective again
  Status set_pace(const std::optional<Pace>& pace, Seconds now);

  /// The answer to a `CharacterizeRequest`; an old ticket is ignored. \param better_follow  these
  /// are the first plans to be had; a table that is nowhere worse comes by the same ticket. A plan
  /// in force then changes only for a better one.
  void characterized(std::uint64_t ticket, Result<plan::PlanTable> plans, Seconds now,
                     bool better_follow = false);
  /// A search by `search_request` has found a plan. Taken where that is for the same objective
  /// still and takes less energy, by `SearchCourse::kWorthwhile` at least. \returns  whether it is
  /// \param better  the job's plans with that one in place of the one before
  bool found_better(std::uint64_t ticket, std::shared_ptr<const plan::PlanTable> better,
                    Seconds now);
  /// About once a second: ends what has an end, falls back to all-max when ranks fall silent.
  void tick(Seconds now);

  /// What has gathered since the last call.
  JobEffects take_effects();

  // Views.
  const JobSpec& spec() const;
  JobPhase phase() const;
  const std::optional<Pace>& pace() const;
  PauseState pause() const;
  /// Reported in this start of training; -1: none.
  std::int64_t newest_iteration() const;
  /// What iterations take beyond their pipelines; 0 where it is not measured yet.
  Seconds overhead() const;
  JobStatus status() const;
  std::vector<PipelineState> pipelines() const;
  /// The assignments in force and those to come, oldest first, at most `kMostPending` + 1.
  std::vector<StageAssignment> assignments(int pipeline, int stage) const;
  std::uint64_t version() const;         ///< of the newest assignments
  const plan::PlanTable* plans() const;  ///< null before the first characterization
  /// What is known of the costs of instructions so far; may be empty.
  Profile profile() const;
  std::vector<RankCoordinates> missing(std::size_t most) const;  ///< places that no rank holds
  int registered() const;                                        ///< ranks that hold places
  /// Estimated bytes of registered ranks, including those of a new start that gathers.
  std::size_t rank_memory() const;
  /// Bytes that this registration may add.
  std::size_t memory_to_register(const RankRegistration& registration, Seconds now) const;
  std::uint64_t start() const;  ///< of training whose ranks hold places, from 1; 0: none has begun
  /// Ranks that hold places and have not been heard of for `kUnheard`, or since this server took
  /// the job up: it is not known whether they hear of a change. O(ranks).
  int unheard(Seconds now) const;
  /// Digest of the specification, by which ranks say what they train.
  const std::string& specification() const;
  const std::string& specification_text() const;  ///< as `job_spec_json` writes it
  const std::string& incarnation() const;         ///< this life of the job
  const std::string& run() const;                 ///< the start of training whose ranks hold places
  const std::string& session(
      RankCoordinates coordinates) const;  ///< that holds it; empty: none does
  Seconds heard() const;  ///< when any rank was heard of last; if never, its creation
  std::optional<Seconds> ended() const;  ///< when all ranks had ended in order; none: they have not
  std::shared_ptr<const plan::PlanTable> shared_plans() const;
  /// By the newest assignments. `kNotFound` where there is no such pipeline, or no plan yet.
  Result<PlanInForce> plan_in_force(int pipeline) const;
  /// What is to be planned now, by the newest ticket.
  CharacterizeRequest characterize_request() const;
  /// Of what a search for a better plan is for: another one where that would begin anew; 0: nothing
  /// is to be searched for now.
  std::uint64_t search_ticket() const;
  CharacterizeRequest search_request() const;  ///< for its objective alone

  // As texts. Everything but the reports of the last iterations, those who gather, and the plans,
  // which are kept apart (`PlanTable::stored_text`).
  std::string snapshot() const;  ///< `JobTexts::state`; short, whatever the number of ranks
  /// The parts that have changed since the last call.
  std::map<std::string, std::string> take_changed_parts();
  JobTexts texts() const;
  /// The job as it was. Members that are not known are left out: a newer Harpe wrote them.
  static Result<Job> read(JobTexts texts, std::optional<plan::PlanTable> plans, Seconds now);
  bool asleep() const;
  /// What was being done is begun again.
  void go_on(Seconds now);

  static constexpr Seconds kSilence{60};
  /// Ranks of Harpe's client are heard of every 20 s at least.
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
