#pragma once
/// \file
/// The jobs of a server, of every kind: decides which of them are in memory and handles their
/// loading, saving and removal, and the claims on them.
///
/// Everything happens on the loop's thread, except reading stored jobs, the tasks of `readers`, and
/// the store, which have threads of their own. A response that promises durability is sent after
/// the store has the data: `JobSaver::when_stored`.

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

/// A reader of stored jobs. It uses the reader of the job's kind, which is chosen by the "format"
/// in the stored state: "harpe.job/2".
class JobRestorer {
 public:
  /// Creates a job from its stored state; called from any thread. Errors of the store are
  /// `kUnavailable`; unreadable data gives any other error.
  using Read = std::function<Result<HostedPtr>(Store& store, const StoredJob& stored, Seconds now)>;

  /// Adds a kind. Call it before the first `restore`. \param formats  prefix of its formats:
  /// "harpe.job/"
  void add(std::string formats, Read read) {
    kinds_.emplace_back(std::move(formats), std::move(read));
  }

  /// Returns the job, asleep; null if the store does not have it. A job of unknown format is read
  /// as the first kind, whose reader reports the error. Callable from any thread.
  Result<HostedPtr> restore(Store& store, const std::string& id, Seconds now) const;

 private:
  std::vector<std::pair<std::string, Read>> kinds_;
};

/// The jobs in memory as a cache of the store. The server knows a summary of every stored job,
/// reads a job if a client requests it or takes part in it, and unloads idle jobs. Used on the
/// loop's thread; stored jobs are read on other threads.
class JobMemory {
 public:
  /// Counts since the start of the server.
  struct Counts {
    std::uint64_t loads = 0, unloads = 0;  ///< from the store and out of memory
  };
  /// Limit on recently used idle jobs that are kept in memory.
  static constexpr std::size_t kMostIdleLoaded = 64;

  /// All arguments must outlive this object.
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
  /// \param client  the client whose share of the memory it takes; empty for none
  Status make_room(std::size_t bytes, const std::string& client = {});
  /// Makes room for `bytes` more of a job in memory. `kUnavailable` if there is no room; 0 bytes
  /// always fit.
  /// \param client  the client whose share the job takes from now on, if it has none yet
  Status make_room_in(Hosted& hosted, std::size_t bytes, const std::string& client);
  /// Unloads idle jobs, but keeps the `most` that were used last for some time.
  /// \param kept_job  a job to keep in memory; null for none
  void unload_idle(std::size_t most = kMostIdleLoaded, const Hosted* kept_job = nullptr);
  /// Creates summaries for some of the jobs that an older Harpe stored without a summary.
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

/// A check of the store for damage, on a separate thread because it may take long. Used on the
/// loop's thread.
class StoreVerifier {
 public:
  /// \param services  must outlive this
  StoreVerifier(Loop& loop, const HostingServices& services)
      : services_(services),
        worker_(loop, services.options.make_workers({.threads = 1, .nice = 10})) {}

  void verify();
  /// Returns the damage that was found; empty if none has been found so far.
  const std::string& damage() const { return damage_; }

 private:
  const HostingServices& services_;
  std::string damage_;
  SideWorkers worker_;  // last: its thread ends before the data it uses is destroyed
};

class Hosting {
 public:
  using Options = HostingOptions;

  /// \param store  must outlive this; null if jobs are not stored
  Hosting(Loop& loop, Clock& clock, Store* store, Options options,
          std::function<void(const std::string&)> log);
  /// Writes all unsaved changes. The loop must have stopped.
  ~Hosting();
  Hosting(const Hosting&) = delete;
  Hosting& operator=(const Hosting&) = delete;

  /// Takes up the jobs of the store, reading only their summaries. Call it once, before the loop
  /// runs.
  Status restore();
  /// Called once a second.
  void tick();
  /// Removes jobs that ended long ago, and events that are older than `age`. Called periodically.
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
  /// Threads for work on jobs; the work of one job does not delay another.
  SideWorkers& readers() { return readers_; }

  const ServiceClock& time() const { return time_; }  ///< `now` is callable from any thread
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
  // Last: their threads end, and the saver writes, before the data they use is destroyed.
  JobSaver saver_;
  JobLog job_log_;
  StoreVerifier verifier_;
  SideWorkers readers_;
};

}  // namespace harpe::training
