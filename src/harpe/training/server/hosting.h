#pragma once
/// \file
/// The jobs of a server, of whatever kind: which of them are in memory, which server commands them,
/// and what becomes of them there.
///
/// Everything happens on the thread of the loop, but reading stored jobs, what `readers` run, and
/// the store, which have threads of their own. What a client is promised to survive is answered
/// after the store has it: `JobSaver::when_stored`.

#include <functional>
#include <string>

#include "harpe/base/loop.h"
#include "harpe/base/result.h"
#include "harpe/training/server/hosting_services.h"
#include "harpe/training/server/job_claims.h"
#include "harpe/training/server/job_log.h"
#include "harpe/training/server/job_memory.h"
#include "harpe/training/server/loaded_jobs.h"

namespace harpe::training {

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
  /// Threads for work that delays no other job there.
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
