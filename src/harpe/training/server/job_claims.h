#pragma once
/// \file
/// The jobs that a server may command, and how it loses them: a client removes them, they ended
/// long ago, or another server may have claimed them.
///
/// All jobs, in memory or not, are this server's by claims in the store, and are let go together
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
  /// False: there was no such job.
  using Done = std::function<void(const Result<bool>&)>;

  bool are_under_way(const std::string& id) const { return under_way_.contains(id); }
  void begin(const std::string& id) { under_way_[id]; }
  /// \returns  false: none of this job is under way, and `done` is not kept
  bool wait(const std::string& id, Done done) {
    const auto removal = under_way_.find(id);
    if (removal == under_way_.end()) return false;
    removal->second.push_back(std::move(done));
    return true;
  }
  /// \returns  those who wait for it
  std::vector<Done> end(const std::string& id) {
    return std::move(under_way_.extract(id).mapped());
  }

  /// \param hosted  null: it is in the store alone, and has to be read to settle it
  void doubt(const std::string& id, const Hosted* hosted) {
    doubted_[id] = hosted == nullptr ? std::numeric_limits<std::int64_t>::max()
                                     : hosted->saving.revisions.newest();
  }
  /// Ends the doubt about a job that this server no longer has. A job registered later under the
  /// same id is another job.
  void forget(const std::string& id) { doubted_.erase(id); }
  bool was_doubted(const std::string& id) const { return doubted_.contains(id); }
  /// Whether the job may be another server's by now.
  bool is_in_doubt(const std::string& id, const Hosted* hosted) const {
    if (under_way_.contains(id)) return true;
    const auto doubted = doubted_.find(id);
    if (doubted == doubted_.end()) return false;
    return hosted == nullptr || hosted->saving.revisions.stored() < doubted->second;
  }
  /// Forgets the doubts that `is_settled` says are none any more.
  void settle(const std::function<bool(const std::string& id)>& is_settled) {
    std::erase_if(doubted_, [&](const auto& one) { return is_settled(one.first); });
  }

 private:
  std::map<std::string, std::vector<Done>> under_way_;
  /// To the revision which, once stored, shows that the job is still there.
  std::map<std::string, std::int64_t> doubted_;
};

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

/// On the loop's thread but for `claim`.
class JobClaims {
 public:
  /// Both must outlive this.
  JobClaims(const HostingServices& services, LoadedJobs& jobs)
      : services_(services), jobs_(jobs), lease_(services.store, services.log) {}

  /// Claims the right to host a new job of this id. Returns nullopt if another server has one. From
  /// any thread.
  Result<std::optional<JobClaim>> claim(const std::string& id) const;
  /// Gives up what was claimed for a job that is not hosted after all.
  void release(const std::string& id);

  /// Returns true if this server may tell clients what a job does: to be asked right before it
  /// does. Otherwise another server may have the job.
  bool commands(const Hosted& hosted) const;
  /// As above, for a job that may be out of memory. Returns false if the job is not here.
  bool commands(const std::string& id) const;
  /// Returns true if this server holds the lease that all claims depend on.
  bool is_lease_held() const { return lease_.is_held(); }
  /// Lets jobs go that were lost with their claims, and calls the listeners of jobs that may not be
  /// commanded now. To be called several times a second.
  void watch_lease();

  /// Drops a job that another server may have claimed.
  void let_go(const std::string& id);
  /// Called when the store refuses what was written by a claim of this epoch.
  void lose(const std::string& id, std::int64_t epoch);

  /// Removes a job, in memory or not. Answers when the store has forgotten it, too: false if there
  /// is none.
  void remove(const std::string& id, const JobRemovals::Done& done);
  /// Begins to remove the job that ended first. Returns false if none has ended.
  bool remove_first_ended();
  /// Removes jobs that ended long ago.
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
