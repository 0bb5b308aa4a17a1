#pragma once
/// \file
/// Which jobs are in memory, and how they come there and leave it.
///
/// Of every job that is stored a summary is known; a job that is asked for, or whose clients are
/// heard, is read from the store, and an idle job leaves memory again. On the loop's thread; stored
/// jobs are read on other threads.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/training/server/hosted.h"
#include "harpe/training/server/hosting_services.h"
#include "harpe/training/server/job_claims.h"
#include "harpe/training/server/job_restorer.h"
#include "harpe/training/server/loaded_jobs.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

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
  /// Takes up a job of the store that this server has just claimed, or had by this claim before.
  /// Returns true if it is new here.
  bool take_up(JobSummary summary, const JobClaim& claim);
  /// Brings the job into memory: at once if it is in memory already, or there is none.
  /// `kUnavailable` if it cannot be read (now).
  void load(const std::string& id, HostedTable::Loaded done);
  /// Makes room for one more job of `bytes` in memory. `kUnavailable` if there is none.
  /// \param client  whose share of the memory it takes; empty: no client's
  Status make_room(std::size_t bytes, const std::string& client = {});
  /// Makes room for `bytes` more of a job in memory. `kUnavailable` if there is no room; 0 bytes
  /// always fit.
  /// \param client  whose share the job takes from now on, if it takes no other client's
  Status make_room_in(Hosted& hosted, std::size_t bytes, const std::string& client);
  /// Unloads idle jobs, all but the `most` that were used last, which go some time later.
  /// \param kept_job  is not unloaded; null: any may be
  void unload_idle(std::size_t most = kMostIdleLoaded, const Hosted* kept_job = nullptr);
  /// Reads some of the jobs that an older Harpe has stored: they have no summary before.
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

}  // namespace harpe::training
