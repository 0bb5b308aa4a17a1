#pragma once
/// \file
/// The table of hosted jobs: jobs in memory, and jobs that are only in the store, with their
/// summaries. An id is in at most one of the two.
///
/// Used on the loop's thread. O(log jobs), except functions that visit all jobs.

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/training/server/hosted.h"
#include "harpe/training/server/service_clock.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// Activity of a job, according to the requests of its clients.
enum class Activity : unsigned char { kActive, kIdle, kEnded };
const char* name_of(Activity activity);

/// The times after which a job becomes idle, ends and is removed.
struct JobLifetimes {
  /// Time without messages from ranks; then the job may leave memory.
  Seconds idle_after{15.0 * 60};
  /// Time without messages from ranks; then the job counts as ended.
  Seconds end_after{24.0 * 3600};
  Seconds keep_ended{30.0 * 86'400};  ///< time until removal; 0 for never
};
/// \param heard  time of the last message from a rank; \param ended  when all ranks ended in order
Activity activity_of(Seconds heard, std::optional<Seconds> ended, Seconds now,
                     const JobLifetimes& lifetimes);

class HostedTable {
 public:
  /// Receives a loaded job; null if there is none.
  using Loaded = std::function<void(const Result<HostedPtr>&)>;
  /// A job that is only in the store.
  struct Stored {
    JobSummary summary;
    JobClaim claim;
    bool loading = false;
    std::vector<Loaded> waiting = {};
  };

  HostedPtr find(const std::string& id) const;
  /// Returns null if the job is in memory or unknown.
  Stored* find_stored(const std::string& id);
  bool holds(const std::string& id) const { return loaded_.contains(id) || stored_.contains(id); }
  std::size_t count() const { return loaded_.size() + stored_.size(); }
  /// Returns the claim under which this server has the job; null if it does not.
  const JobClaim* claim_of(const std::string& id) const;
  const std::map<std::string, HostedPtr>& loaded() const { return loaded_; }
  const std::map<std::string, Stored>& stored() const { return stored_; }
  /// Returns the bytes of all jobs in memory.
  std::size_t memory() const { return memory_; }
  /// Bytes of the jobs in memory that count for `client`.
  std::size_t memory(const std::string& client) const;

  /// Adds a job in memory, replacing its entry as a stored job.
  void add(const HostedPtr& hosted);
  /// Adds a job that is only in the store.
  void add_stored(JobSummary summary, const JobClaim& claim);
  /// Removes a job in memory.
  void erase(const HostedPtr& hosted);
  /// Removes a job that is only in the store; it must exist. \returns  the callbacks that wait for
  /// it
  std::vector<Loaded> erase_stored(const std::string& id) {
    return std::move(stored_.extract(id).mapped().waiting);
  }
  /// Updates the job's share of the memory.
  void measure(Hosted& hosted) { count(hosted, hosted.memory()); }
  /// Counts the job for this client from now on.
  void charge(Hosted& hosted, const std::string& client);

  /// Calls `visit` with each job after the id `after`, by id; either `loaded` or `stored` is null.
  /// Stops when `visit` returns false.
  void visit(const std::string& after,
             const std::function<bool(const std::string& id, const HostedPtr& loaded,
                                      const Stored* stored)>& visit) const;

 private:
  void count(Hosted& hosted, std::size_t memory);

  std::map<std::string, HostedPtr> loaded_;
  std::map<std::string, Stored> stored_;
  std::size_t memory_ = 0;
  std::map<std::string, std::size_t> memory_of_;  ///< by client; clients without memory are omitted
};

/// The activity of the jobs of a table at the time of a clock, and lists of them.
class JobActivities {
 public:
  /// All arguments must outlive this object.
  JobActivities(const HostedTable& table, const ServiceClock& time, const JobLifetimes& lifetimes)
      : table_(table), time_(time), lifetimes_(lifetimes) {}

  Activity of(const Hosted& hosted) const;
  Activity of(const JobSummary& summary) const;
  /// Returns the number of jobs of each activity.
  std::map<Activity, std::size_t> count() const;
  /// Returns the ids of jobs that ended at least `time` ago and that no client listens to, in the
  /// order in which they ended.
  std::vector<std::string> ended_for(Seconds time) const;

  /// A job in a list, with its current summary.
  struct Listed {
    const JobSummary& summary;
    Activity activity;
    const Hosted* hosted;  ///< null if it is not in memory
  };
  /// Calls `show` with up to `limit` jobs of these activities after the id `after`, by id.
  /// \param wanted  selects ids; empty for all
  /// \returns  the last id if more jobs follow
  std::optional<std::string> list(const std::string& after, std::size_t limit,
                                  const std::set<Activity>& activities,
                                  const std::function<bool(const std::string& id)>& wanted,
                                  const std::function<void(const Listed&)>& show) const;

 private:
  const HostedTable& table_;
  const ServiceClock& time_;
  const JobLifetimes& lifetimes_;
};

}  // namespace harpe::training
