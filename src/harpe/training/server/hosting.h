#pragma once
/// \file
/// The jobs of a server, of whatever kind: which of them are in memory, which server commands them,
/// and what becomes of them there.
///
/// Of every job that is stored a summary is known; one that is asked for, or whose clients are
/// heard, is read from the store, and one that is idle leaves memory again. A job that was read and
/// only looked at stays as it was stored: `act` is what makes it go on. All of them, in memory or
/// not, are this server's by claims in the store, and are let go together when its lease is lost.
///
/// Everything happens on the thread of the loop, but reading stored jobs, what is done `aside`, and
/// the store, which have threads of their own. What a client is promised to survive is answered
/// after the store has it: `when_stored`.

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
#include "harpe/training/server/hosted.h"
#include "harpe/training/server/hosted_table.h"
#include "harpe/training/server/job_activity.h"
#include "harpe/training/server/job_log.h"
#include "harpe/training/server/job_removals.h"
#include "harpe/training/server/job_restorer.h"
#include "harpe/training/server/job_saver.h"
#include "harpe/training/server/loop_work.h"
#include "harpe/training/server/service_clock.h"
#include "harpe/training/server/worker_pool.h"
#include "harpe/training/server/workers.h"
#include "harpe/training/store/store.h"

namespace harpe {

/// The lease that all claims of a server depend on: whether it holds, and whether it has changed.
/// On the loop's thread.
class LeaseWatch {
 public:
  /// \param store  must outlive this; null: nothing is shared, and every claim holds
  LeaseWatch(Store* store, std::function<void(const std::string&)> log);

  bool is_held() const { return store_ == nullptr || store_->lease().held; }
  /// Returns true if a job may be commanded by this claim. To be called right before it is
  /// commanded.
  bool covers(const JobClaim& claim) const;

  /// Reads the lease again. Returns true if it was lost, is held again, or is another one.
  bool look();
  /// Returns true if the claim is of the lease that was read last, held or not; otherwise the claim
  /// is lost for good.
  bool has(const JobClaim& claim) const { return claim.tenure == seen_.tenure; }

 private:
  Store* store_;
  std::function<void(const std::string&)> log_;
  LeaseState seen_;
};

/// Looks for damage in the store on a thread of its own, because that may take long. On the loop's
/// thread.
class StoreVerifier {
 public:
  /// \param store  null: there is no store
  StoreVerifier(Loop& loop, Store* store, std::function<void(const std::string&)> log,
                const MakeWorkers& make_workers);

  void verify();
  /// Returns the damage that was found; empty if none was found so far.
  const std::string& damage() const { return damage_; }

 private:
  Store* store_;
  std::function<void(const std::string&)> log_;
  std::string damage_;
  LoopWork work_;
  std::unique_ptr<Workers> worker_;  // last: its thread ends before what it works on goes
};

class Hosting {
 public:
  struct Options {
    /// Jobs at once, in memory or stored. Where more come, those that ended first go.
    std::size_t most_jobs = 100'000;
    std::size_t most_memory = std::size_t{4} << 30;  ///< bytes of jobs in memory
    JobLifetimes lifetimes = {};
    MachineClocks clocks = MachineClocks::system();
    /// Where other servers of the same store reach this one; empty: there are none.
    std::string url = {};
    MakeWorkers make_workers = WorkerPool::make;
  };
  /// Since the start of the server.
  struct Counts {
    std::uint64_t loads = 0, unloads = 0;  ///< from the store and out of memory
  };

  /// \param store  null: nothing survives; must outlive this
  Hosting(Loop& loop, Clock& clock, Store* store, Options options,
          std::function<void(const std::string&)> log);
  /// Writes what is not stored yet. The loop does not run any more.
  ~Hosting();
  Hosting(const Hosting&) = delete;
  Hosting& operator=(const Hosting&) = delete;

  /// How stored jobs of each kind are read: to be set up before the first is.
  JobRestorer& restorer() { return restorer_; }
  /// Takes up the jobs of the store, of which it reads the summaries alone. Before the loop runs;
  /// call once.
  Status restore();
  /// Takes up a job of the store that this server has just claimed, or had by this claim before:
  /// whether it is new here.
  bool take_up(JobSummary summary, const JobClaim& claim);

  /// The job, if it is in memory.
  HostedPtr find(const std::string& id) const { return table_.find(id); }
  /// Whether there is such a job, in memory or not.
  bool holds(const std::string& id) const { return table_.holds(id); }
  /// Brings the job into memory; null: there is none. At once where it is there already, or is
  /// none. `kUnavailable`: it cannot be read (now).
  using Loaded = std::function<void(const Result<HostedPtr>&)>;
  void load(const std::string& id, Loaded done);
  /// Those in memory.
  const std::map<std::string, HostedPtr>& loaded() const { return table_.loaded(); }
  std::size_t count() const { return table_.count(); }
  std::size_t memory() const { return table_.memory(); }  ///< bytes of those in memory

  /// The right to host a job of this id that is new; none: another server has one. From any thread.
  Result<std::optional<JobClaim>> claim(const std::string& id) const;
  /// Gives up what was claimed for a job that is not hosted after all.
  void release(const std::string& id);
  /// For one more job in memory, of so many bytes. `kUnavailable`: there is none.
  /// \param client  whose share of the memory it takes; empty: no client's
  Status make_room(std::size_t bytes, const std::string& client = {});
  /// Makes room for `bytes` more of a job in memory. `kUnavailable` if there is no room; 0 bytes
  /// always fit.
  /// \param client  whose share the job takes from now on, if it takes no other client's
  Status make_room_in(Hosted& hosted, std::size_t bytes, const std::string& client);
  /// Hosts a job that is new, under its claim.
  void add(const HostedPtr& hosted);

  /// Whether this server may tell clients what a job does: to be asked right before it does. Where
  /// not, another server may have the job.
  bool commands(const Hosted& hosted) const;
  /// The same of one that is here, in memory or not; false: it is not here.
  bool commands(const std::string& id) const;
  /// Whether it holds the lease that all claims stand on.
  bool holds_lease() const { return lease_.is_held(); }
  /// Lets jobs go that were lost with their claims, and tells those who listen to jobs that may not
  /// be commanded now. Call several times a second.
  void watch_lease();

  /// Removes a job, in memory or not. Answers when the store has forgotten it, too: false: there is
  /// none.
  void remove(const std::string& id, const JobRemovals::Done& done);
  JobRemovals& removals() { return removals_; }

  /// One of a list. The summary is that of now.
  struct Listed {
    const JobSummary& summary;
    Activity activity;
    const Hosted* hosted;  ///< null: it is not in memory
  };
  /// Shows up to `limit` jobs of these activities behind `after`, by id.
  /// \param wanted  of these ids alone; empty: of all
  /// \returns  the last id, where there are more behind it
  std::optional<std::string> list(const std::string& after, std::size_t limit,
                                  const std::set<Activity>& activities,
                                  const std::function<bool(const std::string& id)>& wanted,
                                  const std::function<void(const Listed&)>& show) const;
  Activity activity(const Hosted& hosted) const;
  /// How many jobs there are of each.
  std::map<Activity, std::size_t> activities() const;

  /// Lets `event` happen to a job, which goes on, and does what follows from it.
  template <class Event>
  auto act(const HostedPtr& hosted, Event event) {
    wake(hosted);
    hosted->touched = true;
    auto outcome = event(now());
    follow(hosted);
    return outcome;
  }
  /// A client that takes part listens to it, and so it goes on.
  void wake(const HostedPtr& hosted);
  /// Calls `done` when everything that the job is now has been stored.
  void when_stored(const HostedPtr& hosted, std::function<void(const Status&)> done) {
    saver_.when_stored(hosted, std::move(done));
  }
  /// The events of a job after a sequence number.
  void log_of(const HostedPtr& hosted, std::int64_t after, int limit,
              std::function<void(Result<std::vector<LoggedEvent>>)> done);
  /// Runs `work` on a thread where it delays no other job, then what it returns on the loop's.
  void aside(const std::string& job, std::function<std::function<void()>()> work,
             Workers::Size size = Workers::Size::kSmall);

  /// Once a second.
  void tick();
  /// Removes jobs that ended long ago, and events that are older than `age`. Now and then.
  void prune(Seconds age);

  Seconds now() const { return time_.now(); }  ///< from any thread
  const ServiceClock& time() const { return time_; }
  Clock& clock() const { return clock_; }
  const std::string& url() const { return options_.url; }
  const Options& options() const { return options_; }
  const Counts& counts() const { return counts_; }
  const JobSaver& saver() const { return saver_; }
  StoreVerifier& verifier() { return verifier_; }
  const StoreVerifier& verifier() const { return verifier_; }
  bool has_store() const { return store_ != nullptr; }
  const std::function<void(const std::string&)>& log() const { return log_; }

  /// Jobs that are in memory though they are idle, because they were asked for.
  static constexpr std::size_t kMostIdleLoaded = 64;

 private:
  void save(const HostedPtr& hosted);
  void follow(const HostedPtr& hosted);
  void tick(const HostedPtr& hosted);
  Activity activity(const JobSummary& summary) const;
  void refresh_summary(const Hosted& hosted);
  // In memory or not: hosting_memory.cc.
  void loaded(const std::string& id, const JobClaim& claim, const Result<HostedPtr>& hosted);
  Status make_memory(std::size_t bytes, const std::string& client, const Hosted* hosted);
  bool is_idle(const Hosted& hosted) const;
  void unload_idle(std::size_t most, const Hosted* kept_job = nullptr);
  void unload(const HostedPtr& hosted);
  void drop(const HostedPtr& hosted, const Status& why);
  void summarise_some();
  // Claims: hosting_claims.cc.
  bool is_in_doubt(const std::string& id) const;
  void settle_doubts();
  void let_go(const std::string& id);
  void lose(const std::string& id, std::int64_t epoch);
  // Removing: hosting_removal.cc.
  void remove_all(const std::vector<std::string>& ids);
  void finish_removal(const std::string& id, bool gone, const Status& status);
  std::vector<std::string> ended_for(Seconds time) const;

  Clock& clock_;
  Store* store_;
  const Options options_;
  std::function<void(const std::string&)> log_;
  const ServiceClock time_;
  JobRestorer restorer_;
  HostedTable table_;
  std::vector<std::string> unsummarised_;
  JobRemovals removals_;
  Counts counts_;
  LeaseWatch lease_;
  Instant refreshed_;
  LoopWork work_;
  JobSaver saver_;
  JobLog job_log_;
  StoreVerifier verifier_;
  std::unique_ptr<Workers> readers_;  // last: its threads end before what they work on goes
};

}  // namespace harpe
