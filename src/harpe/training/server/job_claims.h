#pragma once
/// \file
/// The jobs that a server may command. A server loses a job when a client removes it, when it ended
/// long ago, or when another server may have claimed it.
///
/// This server owns all its jobs, in memory or not, by claims in the store, and drops them together
/// when its lease is lost.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/training/server/hosted.h"
#include "harpe/training/server/loaded_jobs.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// Jobs that are being removed from the store, and jobs whose removal is uncertain: the store did
/// not answer, and another server may have registered the id again. If the store accepts a write of
/// such a job under this server's claim, the job still exists.
///
/// On the loop's thread.
class JobRemovals {
 public:
  /// Called with false if there was no such job.
  using Done = std::function<void(const Result<bool>&)>;

  bool are_under_way(const std::string& id) const { return under_way_.contains(id); }
  void begin(const std::string& id) { under_way_[id]; }
  /// Adds `done` to the removal under way. Returns false, without keeping `done`, if there is none.
  bool wait(const std::string& id, Done done) {
    const auto removal = under_way_.find(id);
    if (removal == under_way_.end()) return false;
    removal->second.push_back(std::move(done));
    return true;
  }
  /// Ends the removal. Returns the callbacks that wait for it.
  std::vector<Done> end(const std::string& id) {
    return std::move(under_way_.extract(id).mapped());
  }

  /// \param hosted  null if it is only in the store; it must then be read to settle the doubt
  void doubt(const std::string& id, const Hosted* hosted) {
    doubted_[id] = hosted == nullptr ? std::numeric_limits<std::int64_t>::max()
                                     : hosted->saving.revisions.newest();
  }
  /// Ends the doubt about a job that this server no longer has. A job registered later under the
  /// same id is another job.
  void forget(const std::string& id) { doubted_.erase(id); }
  bool was_doubted(const std::string& id) const { return doubted_.contains(id); }
  /// Returns true if another server may have the job by now.
  bool is_in_doubt(const std::string& id, const Hosted* hosted) const {
    if (under_way_.contains(id)) return true;
    const auto doubted = doubted_.find(id);
    if (doubted == doubted_.end()) return false;
    return hosted == nullptr || hosted->saving.revisions.stored() < doubted->second;
  }
  /// Removes the doubts for which `is_settled` returns true.
  void settle(const std::function<bool(const std::string& id)>& is_settled) {
    std::erase_if(doubted_, [&](const auto& one) { return is_settled(one.first); });
  }

 private:
  std::map<std::string, std::vector<Done>> under_way_;
  /// Revision of each job which, once stored, proves that the job still exists.
  std::map<std::string, std::int64_t> doubted_;
};

/// The lease that all claims of a server depend on; tracks its loss and renewal. Used on the loop's
/// thread.
class LeaseWatch {
 public:
  /// \param store  must outlive this; null if no store is shared: every claim holds
  LeaseWatch(Store* store, std::function<void(const std::string&)> log);

  bool is_held() const { return store_ == nullptr || store_->lease().held; }
  /// Returns true if a job may be commanded under this claim. Call it immediately before
  /// commanding.
  bool covers(const JobClaim& claim) const;

  /// Reads the lease again. Returns true if it was lost, regained or replaced by another one.
  bool look();
  /// Returns true if the claim is of the lease that was read last, held or not; otherwise the claim
  /// is lost for good.
  bool has(const JobClaim& claim) const { return claim.tenure == seen_.tenure; }

 private:
  Store* store_;
  std::function<void(const std::string&)> log_;
  LeaseState seen_;
};

/// The claims of a server on its jobs. Used on the loop's thread, except `claim`.
class JobClaims {
 public:
  /// Both arguments must outlive this object.
  JobClaims(const HostingServices& services, LoadedJobs& jobs)
      : services_(services), jobs_(jobs), lease_(services.store, services.log) {}

  /// Claims the right to host a new job of this id. Returns nullopt if another server owns the id.
  /// Callable from any thread.
  Result<std::optional<JobClaim>> claim(const std::string& id) const;
  /// Releases the claim on an id whose job is not hosted after all.
  void release(const std::string& id);

  /// Returns true if this server may command the job. Call it immediately before commanding. If it
  /// returns false, another server may have the job.
  bool commands(const Hosted& hosted) const;
  /// As above, for a job that may not be in memory. Returns false if this server does not have the
  /// job.
  bool commands(const std::string& id) const;
  /// Returns true if this server holds the lease that all claims depend on.
  bool is_lease_held() const { return lease_.is_held(); }
  /// Drops the jobs whose claims are lost, and calls the listeners of jobs that may not be
  /// commanded now. Call it several times a second.
  void watch_lease();

  /// Drops a job that another server may have claimed.
  void let_go(const std::string& id);
  /// Called when the store refuses a write under a claim of this epoch.
  void lose(const std::string& id, std::int64_t epoch);

  /// Removes a job, in memory or not. Calls `done` after the store has removed it, with false if
  /// there is no such job.
  void remove(const std::string& id, const JobRemovals::Done& done);
  /// Begins to remove the job that ended first. Returns false if none has ended.
  bool remove_first_ended();
  /// Removes jobs that ended long ago, except recurring jobs.
  void remove_old();
  JobRemovals& removals() { return removals_; }

 private:
  bool is_in_doubt(const std::string& id) const;
  void settle_doubts();
  std::vector<std::string> ended_for(Seconds time) const;
  void remove_all(const std::vector<std::string>& ids);
  void finish_removal(const std::string& id, bool gone, const Status& status);

  const HostingServices& services_;
  LoadedJobs& jobs_;
  LeaseWatch lease_;
  JobRemovals removals_;
};

}  // namespace harpe::training
