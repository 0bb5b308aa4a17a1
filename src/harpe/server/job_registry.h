#pragma once
/// \file
/// All jobs of a server: their state machines, what they need done elsewhere, and who listens.
///
/// Everything happens on the thread of the loop, but reading large specifications, characterizing
/// and the store, which have threads of their own. What a client is promised to survive is answered
/// after the store has it: `when_stored`. Saves are coalesced: while one transaction is being
/// written, all changes gather for the next.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/http/server_loop.h"
#include "harpe/job/job.h"
#include "harpe/server/worker_pool.h"
#include "harpe/store/store.h"

namespace harpe {

/// Something that was told of a job, as the log of a job shows it.
struct LoggedNotice {
  std::int64_t sequence = 0;  ///< rises within the job
  double at = 0;              ///< seconds since 1970
  std::string kind;           ///< "info", "warning" or "phase"
  std::string text;
};

/// Told when something of a job may be new. On the loop's thread.
class JobListener {
 public:
  virtual ~JobListener() = default;
  virtual void changed() = 0;
  /// Once a second.
  virtual void ticked() = 0;
};

/// How far the plans of a job are.
struct Characterization {
  std::uint64_t ticket = 0;
  bool running = false;  ///< false: it waits for a worker
  double fraction = 0;
};

/// A job and what surrounds it. `job` is changed by the registry alone, through `JobRegistry::act`.
struct HostedJob {
  HostedJob(std::string given_id, Job given) : id(std::move(given_id)), job(std::move(given)) {}

  const std::string id;
  Job job;
  bool deleted = false;
  bool moved = false;  ///< another server has it now
  bool is_over() const { return deleted || moved; }
  std::deque<LoggedNotice> notices;  ///< the newest
  std::int64_t newest_notice = 0;
  JobPhase told_phase = JobPhase::kRegistering;
  Instant orders_at;  ///< when the newest orders were made
  /// Orders that were written already, by stage: most pipelines have the same.
  struct OrdersTexts {
    std::uint64_t version = 0;
    struct One {
      int stage;
      std::vector<StageOrders> orders;
      std::string text;
    };
    std::vector<One> texts;
  } orders_texts;
  std::vector<std::weak_ptr<JobListener>> listeners;

  std::optional<Characterization> characterization() const;

  // For the registry.
  struct Work;
  std::shared_ptr<Work> work;  ///< the characterization under way
  std::set<std::string> same_bodies;
  std::optional<std::string> unsaved_plans;
  std::int64_t revision = 0, stored = 0;  ///< of the state now, and in the store
  struct Waiting {
    std::int64_t revision;
    std::function<void(const Status&)> done;
  };
  std::vector<Waiting> waiting;
};

/// Since the start of the server.
struct RegistryCounts {
  std::uint64_t reports = 0, plan_changes = 0, characterizations = 0;
  std::uint64_t saves = 0, save_failures = 0;
  std::uint64_t deliveries = 0;  ///< orders handed to clients that listen
  double delivery_seconds = 0;   ///< sum over them, from decision to hand-over
  double slowest_delivery = 0;   ///< seconds
};

class JobRegistry {
 public:
  struct Options {
    int workers = 1;  ///< characterizations at once
    std::size_t most_jobs = 10'000;
    std::function<Seconds()> now;  ///< seconds since 1970; never falls
    /// Where other servers of the same store reach this one; empty: there are none.
    std::string url = {};
  };
  using JobPtr = std::shared_ptr<HostedJob>;

  /// \param store  null: nothing survives; must outlive this
  JobRegistry(ServerLoop& loop, Clock& clock, Store* store, Options options,
              std::function<void(const std::string&)> log);
  /// Writes what is not stored yet.
  ~JobRegistry();
  JobRegistry(const JobRegistry&) = delete;
  JobRegistry& operator=(const JobRegistry&) = delete;

  /// Takes up the jobs of the store. Before the loop runs; call once. One that cannot be read is
  /// logged and left where it is.
  Status restore();

  /// Takes up a job that this server owns in the store.
  void add(const JobPtr& job);

  struct Registered {
    JobPtr job;  ///< null: another server has just registered one under this id
    bool created = false;
  };
  /// Registers a job, or finds the same one there. `kConflict`: another specification is there.
  /// Answers on the loop's thread, before the store has it.
  void put(const std::string& id, std::string specification,
           std::function<void(Result<Registered>)> done);
  JobPtr find(const std::string& id) const;
  const std::map<std::string, JobPtr>& jobs() const { return jobs_; }
  /// Answers when the store has forgotten it, too.
  void remove(const JobPtr& job, std::function<void(const Status&)> done);

  /// Lets `event` happen to a job and does what follows from it.
  template <class Event>
  auto act(const JobPtr& job, Event event) {
    auto outcome = event(job->job, now());
    follow(job);
    return outcome;
  }
  void count_report() { ++counts_.reports; }
  void count_delivery(const HostedJob& job);

  /// Calls `done` when everything that the job is now has been stored.
  void when_stored(const JobPtr& job, std::function<void(const Status&)> done);
  /// What was told of a job, after a sequence number.
  void log_of(const JobPtr& job, std::int64_t after, int limit,
              std::function<void(Result<std::vector<LoggedNotice>>)> done);

  /// Once a second.
  void tick();
  /// Forgets events that are older.
  void prune(Seconds age);
  Seconds now() const { return options_.now(); }
  const std::string& url() const { return options_.url; }
  Clock& clock() const { return clock_; }
  const RegistryCounts& counts() const { return counts_; }
  std::size_t characterizations_waiting() const { return characterizers_.waiting(); }
  std::size_t characterizations_running() const { return characterizers_.running(); }
  bool has_store() const { return store_ != nullptr; }
  /// Whether the last save went well.
  bool store_works() const { return store_works_; }

 private:
  void follow(const JobPtr& job);
  void tell(const JobPtr& job, std::string kind, std::string text, double at);
  void characterize_later(const JobPtr& job, CharacterizeRequest request);
  void make_own_plans_later(const JobPtr& job, CharacterizeRequest request);
  void hand_over(const JobPtr& job, const HostedJob::Work& work, const Result<PlanTable>& plans,
                 const std::string& json, bool better_follow);
  void save_soon(const JobPtr& job);
  void save();
  StoreChanges gather(std::vector<std::pair<JobPtr, std::int64_t>>& saved);
  void saved(const std::vector<std::pair<JobPtr, std::int64_t>>& jobs,
             const Result<std::vector<std::string>>& written, StoreChanges changes);
  /// A job that was deleted or has moved away, which is already said in it.
  void drop(const JobPtr& job, const Status& why);
  /// Runs `work` on the loop's thread, unless the registry is gone by then.
  void on_loop(std::function<void()> work);

  ServerLoop& loop_;
  Clock& clock_;
  Store* store_;
  Options options_;
  std::function<void(const std::string&)> log_;
  std::map<std::string, JobPtr> jobs_;
  RegistryCounts counts_;
  std::set<JobPtr> unsaved_;
  std::vector<StoredEvent> unsaved_events_;
  bool saving_ = false, save_posted_ = false, store_works_ = true;
  Instant retry_at_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  // Last: their threads end before what they work on goes.
  WorkerPool characterizers_, improvers_, readers_, writers_;
};

/// A job as the store has it, with its plans. From any thread.
/// \param log  told of plans that cannot be read and have to be made again
Result<JobRegistry::JobPtr> read_hosted_job(Store& store, const StoredJob& stored, Seconds now,
                                            const std::function<void(const std::string&)>& log);

}  // namespace harpe
