#pragma once
/// \file
/// The jobs of a server, of whatever kind: which of them are in memory, which server commands them,
/// and what becomes of them there.
///
/// Everything happens on the thread of the loop, but reading stored jobs, what `readers` run, and
/// the store, which have threads of their own. What a client is promised to survive is answered
/// after the store has it: `JobSaver::when_stored`.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/loop.h"
#include "harpe/base/result.h"
#include "harpe/training/server/hosted.h"
#include "harpe/training/server/job_claims.h"
#include "harpe/training/server/loaded_jobs.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// Reads stored jobs into memory with the reader of their kind, which the "format" of their state
/// names: "harpe.job/2".
class JobRestorer {
 public:
  /// Makes a job of what is stored of it; called from any thread. What the store fails at is
  /// `kUnavailable`, what cannot be read any other error.
  using Read = std::function<Result<HostedPtr>(Store& store, const StoredJob& stored, Seconds now)>;

  /// Before the first `restore`. \param formats  how the formats of this kind begin: "harpe.job/"
  void add(std::string formats, Read read) {
    kinds_.emplace_back(std::move(formats), std::move(read));
  }

  /// The job, asleep; null: the store has none. One whose state names no format of any kind is read
  /// as the first kind, which says what is wrong with it. From any thread.
  Result<HostedPtr> restore(Store& store, const std::string& id, Seconds now) const;

 private:
  std::vector<std::pair<std::string, Read>> kinds_;
};

/// Moves jobs between the store and memory. The server knows a summary of every stored job, reads a
/// job if a client asks for it or takes part in it, and unloads idle jobs. On the loop's thread;
/// stored jobs are read on other threads.
class JobMemory {
 public:
  /// Since the start of the server.
  struct Counts {
    std::uint64_t loads = 0, unloads = 0;  ///< from the store and out of memory
  };
  /// Jobs that are in memory though they are idle, because they were asked for.
  static constexpr std::size_t kMostIdleLoaded = 64;

  /// All must outlive this.
  JobMemory(const HostingServices& services, LoadedJobs& jobs, JobClaims& claims)
      : services_(services), jobs_(jobs), claims_(claims) {}

  /// Reads stored jobs of each kind. The kinds are added before the first job is read.
  JobRestorer& restorer() { return restorer_; }
  /// Adds a stored job that this server has claimed. Returns true if the job was not here yet.
  bool take_up(JobSummary summary, const JobClaim& claim);
  /// Loads the job. Calls `done` at once if the job is in memory or does not exist.
  /// `kUnavailable` if it cannot be read (now).
  void load(const std::string& id, HostedTable::Loaded done);
  /// Makes room for one more job of `bytes` in memory. `kUnavailable` if there is none.
  /// \param client  whose share of the memory it takes; empty: no client's
  Status make_room(std::size_t bytes, const std::string& client = {});
  /// Makes room for `bytes` more of a job in memory. `kUnavailable` if there is no room; 0 bytes
  /// always fit.
  /// \param client  whose share the job takes from now on, if it takes no other client's
  Status make_room_in(Hosted& hosted, std::size_t bytes, const std::string& client);
  /// Unloads idle jobs, but keeps the `most` that were used last for some time.
  /// \param kept_job  is not unloaded; null: any may be
  void unload_idle(std::size_t most = kMostIdleLoaded, const Hosted* kept_job = nullptr);
  /// Summarises some of the jobs that an older Harpe has stored without a summary.
  void summarise_some();
  const Counts& counts() const { return counts_; }

 private:
  void loaded(const std::string& id, const JobClaim& claim, const Result<HostedPtr>& hosted);
  Status make_memory(std::size_t bytes, const std::string& client, const Hosted* hosted);
  bool is_idle(const Hosted& hosted) const;
  void unload(const HostedPtr& hosted);

  const HostingServices& services_;
  LoadedJobs& jobs_;
  JobClaims& claims_;
  JobRestorer restorer_;
  std::vector<std::string> unsummarised_;
  Counts counts_;
};

/// Looks for damage in the store on a thread of its own, because that may take long. On the loop's
/// thread.
class StoreVerifier {
 public:
  /// \param services  must outlive this
  StoreVerifier(Loop& loop, const HostingServices& services)
      : services_(services),
        worker_(loop, services.options.make_workers({.threads = 1, .nice = 10})) {}

  void verify();
  /// Returns the damage that was found; empty if none was found so far.
  const std::string& damage() const { return damage_; }

 private:
  const HostingServices& services_;
  std::string damage_;
  SideWorkers worker_;  // last: its thread ends before what it works on goes
};

class Hosting {
 public:
  using Options = HostingOptions;

  /// \param store  null: nothing survives; must outlive this
  Hosting(Loop& loop, Clock& clock, Store* store, Options options,
          std::function<void(const std::string&)> log);
  /// Writes what is not stored yet. The loop does not run any more.
  ~Hosting();
  Hosting(const Hosting&) = delete;
  Hosting& operator=(const Hosting&) = delete;

  /// Takes up the jobs of the store, of which it reads the summaries alone. Before the loop runs;
  /// call once.
  Status restore();
  /// Called once a second.
  void tick();
  /// Removes jobs that ended long ago, and events that are older than `age`. Called now and then.
  void prune(Seconds age);

  const HostedTable& table() const { return table_; }
  const JobActivities& activities() const { return activities_; }
  JobSaver& saver() { return saver_; }
  JobLog& job_log() { return job_log_; }
  LoadedJobs& jobs() { return jobs_; }
  JobClaims& claims() { return claims_; }
  const JobClaims& claims() const { return claims_; }
  JobMemory& memory() { return memory_; }
  StoreVerifier& verifier() { return verifier_; }
  /// Threads for work of which one job does not delay another.
  SideWorkers& readers() { return readers_; }

  const ServiceClock& time() const { return time_; }  ///< `now` from any thread
  Clock& clock() const { return services_.clock; }
  const Options& options() const { return options_; }
  bool has_store() const { return services_.store != nullptr; }
  const std::function<void(const std::string&)>& log() const { return log_; }

 private:
  const Options options_;
  std::function<void(const std::string&)> log_;
  const ServiceClock time_;
  HostedTable table_;
  const JobActivities activities_;
  const HostingServices services_;
  LoadedJobs jobs_;
  JobClaims claims_;
  JobMemory memory_;
  Instant refreshed_;
  // From here on, last: their threads end, and the saver writes, before what they work on goes.
  JobSaver saver_;
  JobLog job_log_;
  StoreVerifier verifier_;
  SideWorkers readers_;
};

}  // namespace harpe::training
