#pragma once
/// \file
/// All jobs of a server: which there are, which of them are in memory, what they need done
/// elsewhere, and who listens.
///
/// Of every job that is stored a summary is known; one that is asked for, or whose ranks are heard,
/// is read from the store, and one that is idle leaves memory again. A job that was read and only
/// looked at stays as it was stored: `act` is what makes it go on. All of them, in memory or not,
/// are this server's by claims in the store, and are let go together when its lease is lost.
///
/// Everything happens on the thread of the loop, but reading specifications and stored jobs,
/// writing large responses, characterizing and the store, which have threads of their own. What a
/// client is promised to survive is answered after the store has it: `when_stored`.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/loop.h"
#include "harpe/base/result.h"
#include "harpe/job/job.h"
#include "harpe/server/hosted_job.h"
#include "harpe/server/job_planner.h"
#include "harpe/server/job_saver.h"
#include "harpe/server/service_clock.h"
#include "harpe/server/worker_pool.h"
#include "harpe/store/store.h"

namespace harpe {

/// Since the start of the server.
struct RegistryCounts {
  std::uint64_t reports = 0, plan_changes = 0;
  std::uint64_t loads = 0, unloads = 0;  ///< of jobs, from the store and out of memory
  std::uint64_t deliveries = 0;          ///< assignments handed to clients that listen
  double delivery_seconds = 0;           ///< sum over them, from decision to hand-over
  double slowest_delivery = 0;           ///< seconds
};

class JobRegistry {
 public:
  struct Options {
    int workers = 1;  ///< characterizations at once
    /// Jobs at once, in memory or stored. Where more come, those that ended first go.
    std::size_t most_jobs = 100'000;
    std::size_t most_memory = std::size_t{4} << 30;  ///< bytes of jobs in memory, by `memory_of`
    JobLifetimes lifetimes = {};
    MachineClocks clocks = MachineClocks::system();
    /// Where other servers of the same store reach this one; empty: there are none.
    std::string url = {};
    std::function<std::string()> new_incarnation = random_incarnation;
    MakeWorkers make_workers = WorkerPool::make;
  };
  /// 16 letters that no other job has had.
  static std::string random_incarnation();
  using JobPtr = harpe::JobPtr;

  /// \param store  null: nothing survives; must outlive this
  JobRegistry(Loop& loop, Clock& clock, Store* store, Options options,
              std::function<void(const std::string&)> log);
  /// Writes what is not stored yet.
  ~JobRegistry();
  JobRegistry(const JobRegistry&) = delete;
  JobRegistry& operator=(const JobRegistry&) = delete;

  /// Takes up the jobs of the store, of which it reads the summaries alone. Before the loop runs;
  /// call once.
  Status restore();

  /// Takes up a job of the store that this server has just claimed, or had by this claim before:
  /// whether it is new here.
  bool take_up(JobSummary summary, const JobClaim& claim);

  struct Registered {
    JobPtr job;  ///< null: another server has just registered one under this id
    bool created = false;
    Job::Proposed proposed = Job::Proposed::kSame;  ///< of one that was there
    std::string specification;                      ///< digest of what was registered
  };
  /// Registers a job, finds the same one there, or proposes another specification to it.
  /// Answers on the loop's thread, before the store has it.
  void put(const std::string& id, std::string specification,
           std::function<void(Result<Registered>)> done);
  /// The job, if it is in memory.
  JobPtr find(const std::string& id) const;
  /// Whether there is such a job, in memory or not.
  bool holds(const std::string& id) const { return jobs_.contains(id) || stored_.contains(id); }
  /// Brings the job into memory; null: there is none. At once where it is there already, or is
  /// none. `kUnavailable`: it cannot be read (now).
  void load(const std::string& id, std::function<void(const Result<JobPtr>&)> done);
  /// Those in memory.
  const std::map<std::string, JobPtr>& jobs() const { return jobs_; }
  std::size_t job_count() const { return jobs_.size() + stored_.size(); }

  /// Whether this server may tell ranks and people what a job does: to be asked right before it
  /// does. Where not, another server may have the job.
  bool commands(const HostedJob& job) const;
  /// The same of one that is here, in memory or not; false: it is not here.
  bool commands(const std::string& id) const;
  /// Whether it holds the lease that all claims stand on.
  bool holds_lease() const;
  /// Lets jobs go that were lost with their claims, and tells those who listen to jobs that may not
  /// be commanded now. Call several times a second.
  void watch_lease();

  /// Removes a job, in memory or not. Answers when the store has forgotten it, too: false: there is
  /// none.
  void remove(const std::string& id, std::function<void(const Result<bool>&)> done);

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
    wake(job);
    job->touched = true;
    auto outcome = event(job->job, now());
    follow(job);
    return outcome;
  }
  /// A rank listens to it, and so it goes on.
  void wake(const JobPtr& job);
  void count_report() { ++counts_.reports; }
  void count_delivery(const HostedJob& job);

  /// Calls `done` when everything that the job is now has been stored.
  void when_stored(const JobPtr& job, std::function<void(const Status&)> done) {
    saver_.when_stored(job, std::move(done));
  }
  /// What was told of a job, after a sequence number.
  void log_of(const JobPtr& job, std::int64_t after, int limit,
              std::function<void(Result<std::vector<LoggedEvent>>)> done);
  /// Runs `work` on a thread where it delays no other job, then what it returns on the loop's.
  void aside(const std::string& job, std::function<std::function<void()>()> work);

  /// Has the store look for damage, which takes as long as it takes: see `damage`.
  void verify_store();
  const std::string& damage() const { return damage_; }

  /// Once a second.
  void tick();
  /// Removes jobs that ended long ago, and events that are older than `age`. Now and then.
  void prune(Seconds age);
  Seconds now() const { return time_.now(); }
  const ServiceClock& time() const { return time_; }
  Activity activity(const HostedJob& job) const;
  /// How many jobs there are of each.
  std::map<Activity, std::size_t> activities() const;
  const std::string& url() const { return options_.url; }
  Clock& clock() const { return clock_; }
  const RegistryCounts& counts() const { return counts_; }
  const JobPlanner& planner() const { return planner_; }
  const JobSaver& saver() const { return saver_; }
  bool has_store() const { return store_ != nullptr; }
  /// Bytes of the jobs in memory, by their specifications.
  std::size_t memory() const { return memory_; }
  const Options& options() const { return options_; }

  /// Jobs that are in memory though they are idle, because they were asked for.
  static constexpr std::size_t kMostIdleLoaded = 64;

 private:
  using Loaded = std::function<void(const Result<JobPtr>&)>;
  using Removing = std::function<void(const Result<bool>&)>;
  struct Incoming;
  using IncomingPtr = std::shared_ptr<Incoming>;
  /// A job that is in the store alone.
  struct Stored {
    JobSummary summary;
    JobClaim claim;
    bool loading = false;
    std::vector<Loaded> waiting = {};
  };

  void add(const JobPtr& job);
  bool commands(const JobClaim& claim) const;
  bool is_in_doubt(const std::string& id) const;
  void forget_doubts();
  void let_go(const std::string& id);
  void lose(const std::string& id, std::int64_t epoch);
  static std::optional<ClockMark> kept_clock(Store* store,
                                             const std::function<void(const std::string&)>& log);
  void put(const IncomingPtr& incoming);
  void read(Incoming& incoming) const;
  void take(const IncomingPtr& incoming);
  void propose(const JobPtr& job, const IncomingPtr& incoming);
  const JobClaim* claim_of(const std::string& id) const;
  Status make_room(std::size_t bytes);
  void loaded(const std::string& id, const JobClaim& claim, const Result<JobPtr>& job);
  bool is_idle(const HostedJob& job) const;
  void unload_idle(std::size_t most);
  void unload(const JobPtr& job);
  /// A job that is over, which is already said in it, or leaves memory.
  void drop(const JobPtr& job, const Status& why);
  void measure(const JobPtr& job);
  void remove_all(const std::vector<std::string>& ids);
  void finish_removal(const std::string& id, bool gone, const Status& status);
  std::vector<std::string> ended_for(Seconds time) const;
  void save(const JobPtr& job);
  void follow(const JobPtr& job);
  void tell(const JobPtr& job, std::string kind, std::string text, Seconds at);
  void deliver(const JobPtr& job, std::uint64_t ticket, const Result<PlanTable>& plans,
               const std::string& json, bool better_follow);
  void tick(const JobPtr& job);
  void summarise_some();
  Activity activity(const JobSummary& summary) const;
  JobSummary summary_of(const HostedJob& job) const;
  void refresh_summary(const HostedJob& job);

  Clock& clock_;
  Store* store_;
  const Options options_;
  std::function<void(const std::string&)> log_;
  const ServiceClock time_;
  std::map<std::string, JobPtr> jobs_;
  std::map<std::string, Stored> stored_;
  std::vector<std::string> unsummarised_;
  std::map<std::string, std::vector<Removing>> removals_;  ///< under way, with who waits for them
  /// Jobs whose removal failed, to the revision which, once stored, shows that they are still
  /// there.
  std::map<std::string, std::int64_t> doubted_;
  std::size_t memory_ = 0;
  RegistryCounts counts_;
  LeaseState lease_;  ///< as it was last looked at
  Instant refreshed_;
  std::string damage_;
  LoopWork work_;
  JobSaver saver_;
  // Last: their threads end before what they work on goes.
  JobPlanner planner_;
  std::unique_ptr<Workers> readers_, verifier_;
};

/// A job as the store has it, with its parts and plans, as it was when it was stored. From any
/// thread. \param log  told of plans that cannot be read and have to be made again
Result<JobPtr> read_hosted_job(Store& store, const StoredJob& stored, Seconds now,
                               const std::function<void(const std::string&)>& log);

}  // namespace harpe
