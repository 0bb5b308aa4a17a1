#pragma once
/// \file
/// The training jobs of a server: registers them, applies events to them, and orders the plans that
/// they need. `Hosting` decides where jobs are kept and which server commands them.
///
/// Everything happens on the loop's thread, except reading specifications and making plans, which
/// have threads of their own.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/loop.h"
#include "harpe/base/random_id.h"
#include "harpe/base/result.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/training/job/job.h"
#include "harpe/training/server/hosted_job.h"
#include "harpe/training/server/hosting.h"
#include "harpe/training/server/plan_searcher.h"
#include "harpe/training/server/workers.h"

namespace harpe::training {

// Assignment of workers to the jobs that need plans.
//
// First plans are computed in the order of their requests; large jobs leave one worker to small
// ones. Better plans are searched for one job at a time, in order, except that jobs whose ranks
// reported much earlier than the latest reports come last; the search of a silent or ended job is
// cancelled. The queue holds pointers, so that no data of a job is copied before its turn.
//
// On the loop's thread.

/// State that the loop and the worker share.
struct HostedJob::Work {
  std::uint64_t ticket = 0;
  bool first_done = false;
  bool large = false;
  std::atomic<bool> running = false, wanted = true;
  std::atomic<double> fraction = 0;
};

class JobPlanner {
 public:
  /// Receives the plans of a job, or an error. \param json  of the plans, in the format of the
  /// store
  using Deliver =
      std::function<void(const JobPtr&, std::uint64_t ticket, const Result<plan::PlanTable>& plans,
                         const std::string& json, bool better_follow)>;
  JobPlanner(Loop& loop, int workers, const MakeWorkers& make_workers, Deliver deliver);

  /// Queues plans for `Job::characterize_request`, replacing the job's earlier request.
  void plan(const JobPtr& job);
  /// Queues additional plans, for the costs of one straggler or for an objective.
  void plan_beside(const JobPtr& job, CharacterizeRequest request);
  /// Cancels all planning of the job.
  void cancel(const JobPtr& job);
  /// Cancels the search for better plans, if the first plans are done.
  void cancel_search(const JobPtr& job);

  std::size_t waiting() const { return first_.size() + better_.size(); }
  std::size_t running() const { return small_running_ + large_running_ + (searching_ ? 1 : 0); }
  std::uint64_t planned() const { return planned_; }

  /// Instructions of an iteration from which a job is large.
  static constexpr int kLarge = 16'384;

 private:
  struct Waiting {
    JobPtr job;
    std::shared_ptr<HostedJob::Work> work;
    /// For additional plans; nullopt for the plans of `Job::characterize_request`.
    std::optional<CharacterizeRequest> beside = {};
  };
  static std::shared_ptr<HostedJob::Work> work_for(const JobPtr& job, std::uint64_t ticket);
  void start_what_may();
  bool may_start(const HostedJob::Work& work) const;
  void start_first(const Waiting& waiting);
  void first_is_done(const Waiting& waiting, bool has_plans, std::optional<Frontier> frontier);
  void start_search();
  void search(const Waiting& waiting, std::optional<Frontier> frontier);

  LoopWork work_;
  const std::size_t workers_;
  Deliver deliver_;
  std::deque<Waiting> first_, better_;
  std::size_t small_running_ = 0, large_running_ = 0;
  bool searching_ = false;
  std::uint64_t planned_ = 0;
  // Last: their threads end before the data they use is destroyed.
  std::unique_ptr<Workers> characterizers_, improver_;
};

/// Counts since the start of the server.
struct RegistryCounts {
  std::uint64_t reports = 0, plan_changes = 0;
  std::uint64_t deliveries = 0;  ///< assignments sent to listening clients
  double delivery_seconds = 0;   ///< sum over deliveries, from decision to sending
  double slowest_delivery = 0;   ///< seconds

  void add_delivery(Seconds time) {
    ++deliveries;
    delivery_seconds += time.value;
    slowest_delivery = std::max(slowest_delivery, time.value);
  }
};

class JobRegistry final : private JobServices {
 public:
  struct Options {
    int workers = 1;  ///< number of concurrent characterizations
    /// Returns an identifier that no other job has had.
    std::function<std::string()> new_incarnation = [] { return random_id(8); };
    SearchLimits search = {};  ///< for the background search for better plans
    /// Checks a specification that is new to this server; an error rejects it.
    std::function<Status(const JobSpec&)> check = {};
    /// Replaces the profiling options of every specification, and drops its profile, carbon terms
    /// and observation. No plans are made, so that jobs stay at all-max and keep their
    /// measurements.
    std::optional<ProfilingOptions> only_profile = {};
  };
  using JobPtr = harpe::training::JobPtr;

  /// \param hosting  uses this registry to read training jobs from now on, and must outlive it; the
  /// loop does not run between the destruction of the two
  JobRegistry(Loop& loop, Hosting& hosting, Options options);
  ~JobRegistry() override;
  JobRegistry(const JobRegistry&) = delete;
  JobRegistry& operator=(const JobRegistry&) = delete;

  struct Registered {
    JobPtr job;  ///< null if another server has just registered a job under this id
    bool created = false;
    Job::Proposed proposed = Job::Proposed::kSame;  ///< for an existing job
    std::string specification;                      ///< digest of the registered specification
  };
  /// Registers a job; if the id exists, finds the same job or proposes the new specification to it.
  /// Calls `done` on the loop's thread, before the job is stored. `kConflict` if the id belongs to
  /// a job of another kind.
  /// \param client  the client whose share of the memory for jobs a new job takes; empty for none
  void put(const std::string& id, std::string specification, const std::string& client,
           std::function<void(Result<Registered>)> done);
  /// Registers a rank if there is memory for it; else returns `kUnavailable`.
  /// \param client  as in `JobMemory::make_room_in`
  Result<RankEntry> register_rank(const JobPtr& job, const RankRegistration& rank,
                                  const std::string& client);
  /// Returns the job, or null if it is not in memory.
  JobPtr find(const std::string& id) const;
  /// Loads a training job (`JobMemory::load`); null if the id belongs to another kind of job.
  void load(const std::string& id, std::function<void(const Result<JobPtr>&)> done);
  /// Returns the training jobs in memory, by id.
  std::vector<JobPtr> jobs() const;

  struct Page {
    std::string jobs;                 ///< summaries of jobs in JSON, separated by commas
    std::optional<std::string> next;  ///< the last id of the page; nullopt if no jobs follow
  };
  /// Returns up to `limit` jobs of these activities after the id `after`, by id.
  Page list(const std::string& after, std::size_t limit, const std::set<Activity>& activities,
            const std::optional<std::string>& only_job) const;

  /// Applies `event` to a job and handles its effects.
  template <class Event>
  auto act(const JobPtr& job, Event event) {
    return hosting_.jobs().act(job, [&](Seconds at) { return event(job->job, at); });
  }

  // Access to hosting for the routes.
  Hosting& hosting() const { return hosting_; }
  bool commands(const HostedJob& job) const { return hosting_.claims().commands(job); }
  void wake(const JobPtr& job) { hosting_.jobs().wake(job); }
  void when_stored(const JobPtr& job, std::function<void(const Status&)> done) {
    hosting_.saver().when_stored(job, std::move(done));
  }
  Clock& clock() const { return hosting_.clock(); }
  Seconds now() const { return hosting_.time().now(); }
  const ServiceClock& time() const override { return hosting_.time(); }

  RegistryCounts& counts() { return counts_; }
  const JobPlanner& planner() const { return planner_; }
  const PlanSearcher& searcher() const { return searcher_; }

 private:
  struct Incoming;
  using IncomingPtr = std::shared_ptr<Incoming>;

  void put(const IncomingPtr& incoming);
  static void read(Incoming& incoming, const Hosting& hosting,
                   const std::optional<ProfilingOptions>& only_profile);
  void take(const IncomingPtr& incoming);
  Status check(const Incoming& incoming) const;
  void propose(const JobPtr& job, const IncomingPtr& incoming);
  void deliver(const JobPtr& job, std::uint64_t ticket, const Result<plan::PlanTable>& plans,
               const std::string& json, bool better_follow);

  void follow(const JobPtr& job, JobEffects effects) override;
  void rest(const JobPtr& job) override {
    planner_.cancel_search(job);
    searcher_.halt(job);
  }
  void leave(const JobPtr& job) override {
    planner_.cancel(job);
    searcher_.halt(job);
  }
  bool take_better(const JobPtr& job, std::uint64_t ticket,
                   const std::shared_ptr<const plan::PlanTable>& plans, const std::string& json);

  Hosting& hosting_;
  const Options options_;
  RegistryCounts counts_;
  // Last: their threads end before the data they use is destroyed.
  PlanSearcher searcher_;
  JobPlanner planner_;
};

}  // namespace harpe::training
