#pragma once
/// \file
/// The inside of a job. Only for its `.cc` files.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/statistics.h"
#include "harpe/job/drift_watch.h"
#include "harpe/job/iteration_collector.h"
#include "harpe/job/job.h"
#include "harpe/job/job_work.h"
#include "harpe/job/profiler.h"
#include "harpe/job/rank_book.h"
#include "harpe/job/straggler_detector.h"

namespace harpe {

/// One version of the orders of all ranks.
struct Deployment {
  std::uint64_t version = 0;
  std::int64_t from = 0;
  StageOrders::Purpose purpose = StageOrders::Purpose::kFullSpeed;
  std::vector<Megahertz> stage_clocks;     ///< full speed, profile
  std::shared_ptr<const PlanTable> plans;  ///< plan
  PlanChoice choice;                       ///< plan
};

/// A slow worker, with what it means for its pipeline by these plans.
struct JudgedWorker {
  SlowWorker worker;
  double factor = 1;
  std::shared_ptr<const PlanTable> plans;
};

/// Whether the ranks' own times speak against what is told of a straggler.
struct Doubt {
  Straggler told;
  int iterations = 0;  ///< in a row in which they did
  bool said = false;
};

/// Ranks of another start of training, or of another specification, that hold no places yet.
struct Gathering {
  std::string specification;
  RankBook ranks;
  Seconds heard{};  ///< the newest of them
};

struct Job::State {
  State(JobSpec given, Pipeline built, Seconds now);

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
  void refuse(const std::string& who, const std::string& why, Seconds now, bool tell_of_it);
  void tell_of_others(Notice::Level level, Seconds now, std::string text);

  // Another specification: job_succession.cc.
  void succeed(State& before, Seconds now);
  void inherit_measured(const State& before);

  std::vector<Megahertz> highest_clocks() const;
  std::int64_t newest_iteration() const {
    return collector.newest() >= 0 ? collector.newest() : newest_stored;
  }

  // Orders: job_orders.cc.
  int lead() const;
  int lead_after(Seconds under_way) const;
  std::int64_t next_from() const;
  void deploy(Deployment deployment);
  void deploy_full_speed();
  void deploy_profile();  ///< the clocks of the profiler's current block
  void deploy_choice(Seconds now, const std::string& why);
  void deploy_again();
  const Deployment* in_force(std::int64_t iteration) const;
  const Deployment* with_version(std::uint64_t version) const;
  StageOrders orders(const Deployment& deployment, int pipeline, int stage) const;
  std::vector<Straggler> all_stragglers() const;

  // Iterations: job_iterations.cc.
  void finish(const FinishedIteration& iteration, Seconds now);
  void note_full_speed(const FinishedIteration& iteration, Seconds time);
  void profile_iteration(const FinishedIteration& iteration, Seconds now);
  void plan_iteration(const FinishedIteration& iteration, Seconds time, Seconds now);
  void relative_times(const FinishedIteration& iteration);
  double compute_time(const FinishedIteration& iteration, int pipeline, int stage) const;
  Seconds predicted_time(const Deployment& deployment) const;
  double predicted_energy(const TablePlan& plan, int stage, Seconds time) const;
  void watch_drift(const FinishedIteration& iteration, const Deployment& deployment, Seconds time,
                   Seconds now);
  void doubt_told(Seconds now);
  void watch_stragglers(Seconds now);
  void account_savings(const FinishedIteration& iteration, Seconds time);

  // Profiling and planning: job_planning.cc.
  std::vector<std::vector<Megahertz>> clocks() const;
  void start_profiling(const std::vector<int>& stages, Seconds now, const std::string& why);
  void resume_profiling(Seconds now, const std::string& why);
  void end_profiling(Seconds now);
  std::vector<int> stages_to_measure(const Profile& known) const;
  bool loses_clocks() const;
  void plan_anew(Seconds now);
  void fit_to_clocks(Seconds now);
  void request_plans(const Profile& from, std::vector<Watts> waiting, Seconds now);
  void request_given_profile(Seconds now);
  void ask_for_plans();
  bool fits(const PlanTable& table) const;
  void take_plans(PlanTable table, Seconds now);
  void improve_plans(PlanTable table, Seconds now);
  double pipeline_factor(int stage, double factor) const;

  void go_on(Seconds now);  ///< job_snapshot.cc
  void note_whether_set(const IterationReport& report, const Deployment* due, Seconds now);
  int ranks_not_set() const;
  void tell(Notice::Level level, Seconds now, std::string text);

  JobSpec spec;
  Pipeline pipeline;
  JobWork work;
  std::string specification;          ///< digest of `specification_text`
  std::string specification_text;     ///< as `job_spec_json` writes it
  bool specification_changed = true;  ///< it is to be stored
  std::string incarnation;  ///< chosen at random; after each succession with a '.' and a count
  JobPhase phase = JobPhase::kRegistering;
  bool asleep = false;  ///< see `Job::go_on`
  Seconds heard{};
  std::optional<Seconds> ended;
  RankBook ranks;
  std::uint64_t start = 0;  ///< of training, whose ranks these are; rises
  std::vector<Gathering> gatherings;
  struct Proposal {
    std::unique_ptr<State> state;
    Seconds heard{};
  };
  std::vector<Proposal> proposals;
  std::vector<Refusal> refusals;  ///< oldest first
  int others_told = 0;            ///< notices of what others do since
  Seconds others_told_since{};
  IterationCollector collector;
  std::optional<Profiler> profiler;
  std::shared_ptr<const PlanTable> plans;
  std::optional<Profile> profile;     ///< from which `plans` was made, or is being made
  std::vector<Watts> blocking_power;  ///< the same
  std::vector<std::vector<MeasuredClock>> measured;  ///< by the last profiler that was done
  std::optional<Profiler::Kept> interrupted;  ///< profiling to go on with when all ranks are there
  bool plans_due = false;  ///< from `profile`, asked for: there are none yet, or better ones come
  StragglerDetector detector;
  DriftWatch drift;

  std::deque<Deployment> deployments;  ///< by rising version
  std::uint64_t version = 0;           ///< of the newest, ever
  std::uint64_t ticket = 0;            ///< of the characterization that is waited for
  bool redeploy = false;               ///< once it is known where the ranks are

  std::vector<Straggler> told, detected;
  std::vector<JudgedWorker> slow_workers;
  std::vector<Doubt> doubts;               ///< of `told`
  std::vector<Straggler> told_too_little;  ///< the user knows that these do not explain it
  Wish wish;
  Seconds iteration_time{};         ///< running mean
  Seconds newest_since{};           ///< when the newest iteration was first reported
  Seconds newest_event{};           ///< of the newest event
  Seconds delivery{0.25};           ///< that orders may take to all ranks
  std::uint64_t late_version = 0;   ///< orders that came late to some rank
  std::optional<Seconds> overhead;  ///< of an iteration outside its pipeline
  int plan_iterations = 0;          ///< since the plan, while `overhead` is not known

  // Of iterations at full clocks.
  RunningMedian full_times;
  Seconds full_time{};              ///< what they come to
  std::vector<double> full_energy;  ///< running means by stage, of one pipeline; 0: not known

  int rollbacks = 0;
  bool rolled_back = false;
  std::int64_t last_profiling = 0;  ///< iteration at which it ended
  Joules saved{}, reported_energy{};
  std::int64_t newest_stored = -1;  ///< iteration; of those before the job was stored
  Seconds created{};
  Seconds taken_up{};  ///< by this server
  bool told_missing = false, told_silent = false, told_no_energy = false, told_not_set = false;
  std::optional<Seconds> no_energy_since;
  std::map<std::size_t, int> not_set;  ///< reports in a row of ranks whose clocks were not set
  std::int64_t reports = 0, reports_unused = 0, reports_refused = 0, orders_late = 0;

  JobEffects effects;
  std::vector<float> relative;  ///< scratch: of each group
};

}  // namespace harpe
