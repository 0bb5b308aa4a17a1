#pragma once
/// \file
/// The training jobs of a server: how they are registered, what happens to them, and the plans that
/// they need made. Where they are kept, and which server commands them, is left to `Hosting`.
///
/// Everything happens on the thread of the loop, but reading specifications and making plans, which
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
// ones. Better plans are searched for one job at a time, beginning with the job whose ranks
// reported last; jobs that are silent or ended are skipped. The queue holds names, so that no data
// of a job is copied before its turn.
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
  /// Plans of a job, or why there are none. \param json  of the plans, as the store keeps them
  using Deliver =
      std::function<void(const JobPtr&, std::uint64_t ticket, const Result<plan::PlanTable>& plans,
                         const std::string& json, bool better_follow)>;
  JobPlanner(Loop& loop, int workers, const MakeWorkers& make_workers, Deliver deliver);

  /// Makes plans by `Job::characterize_request`, in place of what was asked for before.
  void plan(const JobPtr& job);
  /// Makes plans for one straggler's costs or for an objective, beside those of the job.
  void plan_beside(const JobPtr& job, CharacterizeRequest request);
  /// Nothing more is to be done for the job.
  void cancel(const JobPtr& job);
  /// Gives up the search for better plans, if that is what is left.
  void cancel_search(const JobPtr& job);

  std::size_t waiting() const { return first_.size() + better_.size(); }
  std::size_t running() const { return small_running_ + large_running_ + (searching_ ? 1 : 0); }
  std::uint64_t planned() const { return planned_; }

  /// Instructions of an iteration from which a job is a large one.
  static constexpr int kLarge = 16'384;

 private:
  struct Waiting {
    JobPtr job;
    std::shared_ptr<HostedJob::Work> work;
    /// Beside those of the job; none: by `Job::characterize_request`.
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
  // Last: their threads end before what they work on goes.
  std::unique_ptr<Workers> characterizers_, improver_;
};

/// Counts since the start of the server.
struct RegistryCounts {
  std::uint64_t reports = 0, plan_changes = 0;
  std::uint64_t deliveries = 0;  ///< assignments handed to clients that listen
  double delivery_seconds = 0;   ///< sum over them, from decision to hand-over
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
    int workers = 1;  ///< characterizations at once
    /// Returns an identifier that no other job has had.
    std::function<std::string()> new_incarnation = [] { return random_id(8); };
    SearchLimits search = {};  ///< for better plans than jobs run by, in the background
    /// What a specification that is new here may not ask for.
    std::function<Status(const JobSpec&)> check = {};
    /// Takes the place of what each specification says of profiling; a profile that it brings, and
    /// its carbon terms, are left out. No plans are made, so that jobs stay at all-max with what
    /// was measured.
    std::optional<ProfilingOptions> only_profile = {};
  };
  using JobPtr = harpe::training::JobPtr;

  /// \param hosting  reads training jobs by this registry from now on, and must outlive it; the
  /// loop does not run between the ends of the two
  JobRegistry(Loop& loop, Hosting& hosting, Options options);
  ~JobRegistry() override;
  JobRegistry(const JobRegistry&) = delete;
  JobRegistry& operator=(const JobRegistry&) = delete;

  struct Registered {
    JobPtr job;  ///< null: another server has just registered one under this id
    bool created = false;
    Job::Proposed proposed = Job::Proposed::kSame;  ///< of one that was there
    std::string specification;                      ///< digest of what was registered
  };
  /// Registers a job, finds the same one there, or proposes another specification to it. Answers on
  /// the loop's thread, before the store has it. `kConflict`: the id is that of another kind of
  /// job.
  /// \param client  whose share of the memory for jobs a new one takes; empty: no client's
  void put(const std::string& id, std::string specification, const std::string& client,
           std::function<void(Result<Registered>)> done);
  /// Lets a rank take its place, if there is memory for it: else `kUnavailable`.
  /// \param client  as in `JobMemory::make_room_in`
  Result<RankEntry> register_rank(const JobPtr& job, const RankRegistration& rank,
                                  const std::string& client);
  /// The job, if it is in memory.
  JobPtr find(const std::string& id) const;
  /// `JobMemory::load` of a training job; null also where the id is that of another kind.
  void load(const std::string& id, std::function<void(const Result<JobPtr>&)> done);
  /// Those in memory, by id.
  std::vector<JobPtr> jobs() const;

  struct Page {
    std::string jobs;                 ///< the summaries of some jobs, in JSON, with commas between
    std::optional<std::string> next;  ///< the last id, where there are more behind it
  };
  /// Up to `limit` jobs of these activities behind `after`, by id.
  Page list(const std::string& after, std::size_t limit, const std::set<Activity>& activities,
            const std::optional<std::string>& only_job) const;

  /// Lets `event` happen to a job and does what follows from it.
  template <class Event>
  auto act(const JobPtr& job, Event event) {
    return hosting_.jobs().act(job, [&](Seconds at) { return event(job->job, at); });
  }

  // Of hosting, what each route needs.
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
  // Last: their threads end before what they work on goes.
  PlanSearcher searcher_;
  JobPlanner planner_;
};

}  // namespace harpe::training
