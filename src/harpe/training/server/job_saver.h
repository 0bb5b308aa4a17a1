#pragma once
/// \file
/// What is written to the store, in which order, and what happens when it refuses.
///
/// One thread writes, in the order in which it is told to: what was removed stays removed, because
/// nothing of a job is written behind its removal, until it is known what came of that. Saves are
/// coalesced: while one transaction is being written, all changes gather for the next.
///
/// A store that fails is tried again every second. One that takes some jobs and refuses another
/// shows itself when fewer are saved at once, which is done after every failure, down to one: the
/// refused one is set apart after `kMostRefusals`, said in the log and by `refused`, and tried
/// again once a minute, while the others go on.
///
/// On the loop's thread.

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
    Store* store;  ///< null: nothing survives, and all calls succeed at once
    std::function<void(const std::string&)> log;
    const MakeWorkers& make_workers;
    /// The store has this job, by a claim of this epoch, no more: it is another server's, or gone.
    std::function<void(const std::string& id, std::int64_t epoch)> lost;
  };
  explicit JobSaver(Parts parts);
  /// Writes what is not stored yet.
  ~JobSaver();
  JobSaver(const JobSaver&) = delete;
  JobSaver& operator=(const JobSaver&) = delete;

  /// What the job is now differs from what the store has.
  void changed(const HostedPtr& job);
  void add_event(const HostedPtr& job, StoredEvent event);
  /// Calls `done` when everything that the job is now has been stored, or could not be.
  void when_stored(const HostedPtr& job, std::function<void(const Status&)> done);
  /// Nothing more of the job is stored by this server: answers all who wait.
  static void give_up(Hosted& job, const Status& why) {
    respond(job, job.saving.revisions.newest(), why);
  }
  /// Writes a summary alone with the next save. \param epoch  of the claim by which
  void refresh(JobSummary summary, std::int64_t epoch);

  /// Removes jobs from the store, behind all that is being written. Answers which are gone, which
  /// are another server's, and why others are not gone.
  struct Removal {
    std::string job;
    std::int64_t epoch = 0;  ///< of the claim by which
  };
  struct Removed {
    std::vector<std::string> gone;
    std::vector<Removal> lost;
    Status status = ok_status();
  };
  void remove(std::vector<Removal> removals, std::function<void(const Removed&)> done);
  /// Deletes events, some at a time until none is left that should go.
  void prune(Retention keep);

  /// Once a second.
  void tick();
  bool works() const { return works_; }
  /// Ids of jobs that the store refuses.
  std::vector<std::string> refused() const;
  const Counts& counts() const { return counts_; }

  static constexpr int kMostRefusals = 3;

 private:
  struct Batch {
    std::vector<std::pair<HostedPtr, std::int64_t>> jobs;  ///< with the revision that is saved
    bool empty() const { return jobs.empty() && changes.summaries.empty(); }
    StoreChanges changes;
  };
  /// A batch that the writer has.
  struct Flight {
    Batch batch;
    std::optional<Result<std::vector<std::string>>> written = {};  ///< nullopt: not yet
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
  std::set<std::string> removing_;     ///< whose removal is under way
  std::shared_ptr<Flight> in_flight_;  ///< until its result is handled
  bool saving_ = false, save_posted_ = false, works_ = true;
  std::size_t most_at_once_;  ///< jobs in a transaction: 1 after a failure, then ever more
  int failed_in_a_row_ = 0;   ///< jobs that were saved alone
  Instant retry_at_;
  Counts counts_;
  std::unique_ptr<Workers> writer_;  // last: its thread ends before what it works on goes
};

/// What is wrong with the store is no fault of the client that meets it: `kUnavailable`.
Error store_failure(const std::string& what, const Error& why);

}  // namespace harpe::training
