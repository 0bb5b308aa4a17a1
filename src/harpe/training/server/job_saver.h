#pragma once
/// \file
/// The saver writes jobs to the store, in order, and handles refusals by the store.
///
/// One thread writes, in the order of the calls. A removed job stays removed, because nothing of a
/// job is written between the start of its removal and the result. Saves are coalesced: while one
/// transaction is being written, all changes gather for the next.
///
/// A store that fails is tried again every second. After each failure, fewer jobs are saved at
/// once, down to one, which reveals a job that the store refuses while it accepts others. After
/// `kMostRefusals` such a job is set apart and reported in the log and by `refused`; it is tried
/// again once a minute, while other jobs continue to be saved.
///
/// Used on the loop's thread.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/training/server/hosted.h"
#include "harpe/training/server/service_clock.h"
#include "harpe/training/server/workers.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

class JobSaver {
 public:
  struct Counts {
    std::uint64_t saves = 0, failures = 0;
  };
  struct Parts {
    Loop& loop;
    Clock& clock;
    const ServiceClock& time;
    Store* store;  ///< null: nothing is stored, and all calls succeed at once
    std::function<void(const std::string&)> log;
    const MakeWorkers& make_workers;
    /// Called when the store no longer has this job under a claim of this epoch: another server
    /// owns it, or it was removed.
    std::function<void(const std::string& id, std::int64_t epoch)> lost;
  };
  explicit JobSaver(Parts parts);
  /// Writes all unsaved changes.
  ~JobSaver();
  JobSaver(const JobSaver&) = delete;
  JobSaver& operator=(const JobSaver&) = delete;

  /// Records that the job has changed since it was stored.
  void changed(const HostedPtr& job);
  void add_event(const HostedPtr& job, StoredEvent event);
  /// Calls `done` when the current state of the job has been stored, or could not be stored.
  void when_stored(const HostedPtr& job, std::function<void(const Status&)> done);
  /// Calls all waiting callbacks with `why`. For a job that this server no longer saves.
  static void give_up(Hosted& job, const Status& why) {
    respond(job, job.saving.revisions.newest(), why);
  }
  /// Writes a summary, without the job, with the next save. \param epoch  of the claim
  void refresh(JobSummary summary, std::int64_t epoch);

  /// Removes jobs from the store, after all writes in progress. Reports the removed jobs, the jobs
  /// that another server owns, and the error for the rest.
  struct Removal {
    std::string job;
    std::int64_t epoch = 0;  ///< of the claim
  };
  struct Removed {
    std::vector<std::string> gone;
    std::vector<Removal> lost;
    Status status = ok_status();
  };
  void remove(std::vector<Removal> removals, std::function<void(const Removed&)> done);
  /// Deletes events, in several steps until all excluded events are deleted.
  void prune(Retention keep);

  /// Called once a second.
  void tick();
  bool works() const { return works_; }
  /// Returns the ids of jobs that the store refuses.
  std::vector<std::string> refused() const;
  const Counts& counts() const { return counts_; }

  static constexpr int kMostRefusals = 3;

 private:
  struct Batch {
    std::vector<std::pair<HostedPtr, std::int64_t>> jobs;  ///< with the saved revision
    bool empty() const { return jobs.empty() && changes.summaries.empty(); }
    StoreChanges changes;
  };
  /// A batch that is being written.
  struct Flight {
    Batch batch;
    /// nullopt while it is being written.
    std::optional<Result<std::vector<std::string>>> written = {};
  };
  void queue(const HostedPtr& job);
  void save_soon();
  void save();
  Batch gather();
  void gather(const HostedPtr& job, Batch& batch);
  void saved(Batch batch, const Result<std::vector<std::string>>& written);
  void done(const HostedPtr& job, std::int64_t revision);
  static void take_back(Batch& batch);
  void failed(Batch batch, const Error& why);
  void refuse(const HostedPtr& job, const Error& why);
  bool is_apart(const Hosted& job) const { return job.saving.refusals >= kMostRefusals; }
  bool may_save(const Hosted& job) const { return !job.is_over() && !removing_.contains(job.id); }
  static void respond(Hosted& job, std::int64_t revision, const Status& status);

  Parts parts_;
  LoopWork work_;
  std::deque<HostedPtr> queue_;
  struct Refresh {
    JobSummary summary;
    std::int64_t epoch = 0;
  };
  std::map<std::string, Refresh> refresh_;  ///< by job
  std::vector<HostedPtr> apart_;
  std::set<std::string> removing_;     ///< jobs whose removal is in progress
  std::shared_ptr<Flight> in_flight_;  ///< until its result is handled
  bool saving_ = false, save_posted_ = false, works_ = true;
  std::size_t most_at_once_;  ///< jobs in a transaction: 1 after a failure, then doubled
  int failed_in_a_row_ = 0;   ///< number of jobs that were saved alone
  Instant retry_at_;
  Counts counts_;
  std::unique_ptr<Workers> writer_;  // last: its thread ends before the data it uses is destroyed
};

/// Returns a `kUnavailable` error: the client is not responsible for a failure of the store.
Error store_failure(const std::string& what, const Error& why);

}  // namespace harpe::training
