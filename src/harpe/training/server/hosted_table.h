#pragma once
/// \file
/// Which jobs a server hosts: those in memory, and those that the store alone has, of which a
/// summary is known. An id is in one of the two at most.
///
/// On the loop's thread. O(log jobs) but what visits all.

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

/// Whether a job trains, judged by the requests of its clients.
enum class Activity : unsigned char { kActive, kIdle, kEnded };
const char* name_of(Activity activity);

/// When jobs change their activity and go.
struct JobLifetimes {
  Seconds idle_after{15.0 * 60};      ///< without a word of any rank; out of memory from then on
  Seconds end_after{24.0 * 3600};     ///< the same: it has ended, though no rank said so
  Seconds keep_ended{30.0 * 86'400};  ///< until it is removed; 0: for ever
};
/// \param heard  when a rank was last heard of; \param ended  when all ended in order
Activity activity_of(Seconds heard, std::optional<Seconds> ended, Seconds now,
                     const JobLifetimes& lifetimes);

class HostedTable {
 public:
  /// Receives a loaded job; null if there is none.
  using Loaded = std::function<void(const Result<HostedPtr>&)>;
  /// A job that is in the store alone.
  struct Stored {
    JobSummary summary;
    JobClaim claim;
    bool loading = false;
    std::vector<Loaded> waiting = {};
  };

  HostedPtr find(const std::string& id) const;
  /// Null where it is in memory, or not here.
  Stored* find_stored(const std::string& id);
  bool holds(const std::string& id) const { return loaded_.contains(id) || stored_.contains(id); }
  std::size_t count() const { return loaded_.size() + stored_.size(); }
  /// By which this server has it; null: it is not here.
  const JobClaim* claim_of(const std::string& id) const;
  const std::map<std::string, HostedPtr>& loaded() const { return loaded_; }
  const std::map<std::string, Stored>& stored() const { return stored_; }
  /// Bytes of those in memory.
  std::size_t memory() const { return memory_; }
  /// Bytes of the jobs in memory that count for `client`.
  std::size_t memory(const std::string& client) const;

  /// It is in memory from now on, in place of what the store alone had.
  void add(const HostedPtr& hosted);
  /// The store alone has it.
  void add_stored(JobSummary summary, const JobClaim& claim);
  /// It is not here any more.
  void erase(const HostedPtr& hosted);
  /// The same of one that the store alone has, which is there. \returns  those who wait for it
  std::vector<Loaded> erase_stored(const std::string& id) {
    return std::move(stored_.extract(id).mapped().waiting);
  }
  /// It may take more memory than before, or less.
  void measure(Hosted& hosted) { count(hosted, hosted.memory()); }
  /// Counts it as the job of this client from now on.
  void charge(Hosted& hosted, const std::string& client);

  /// All behind `after`, by id; each is one of both, and the other is null. Ends where `visit`
  /// returns false.
  void visit(const std::string& after,
             const std::function<bool(const std::string& id, const HostedPtr& loaded,
                                      const Stored* stored)>& visit) const;

 private:
  void count(Hosted& hosted, std::size_t memory);

  std::map<std::string, HostedPtr> loaded_;
  std::map<std::string, Stored> stored_;
  std::size_t memory_ = 0;
  std::map<std::string, std::size_t> memory_of_;  ///< by client; clients without any are left out
};

/// The activity of the jobs of a table at the time of a clock, and lists of them.
class JobActivities {
 public:
  /// All must outlive this.
  JobActivities(const HostedTable& table, const ServiceClock& time, const JobLifetimes& lifetimes)
      : table_(table), time_(time), lifetimes_(lifetimes) {}

  Activity of(const Hosted& hosted) const;
  Activity of(const JobSummary& summary) const;
  /// Returns the number of jobs of each activity.
  std::map<Activity, std::size_t> count() const;
  /// Returns the ids of jobs that have ended for so long and that no client looks at, those that
  /// ended first before the others.
  std::vector<std::string> ended_for(Seconds time) const;

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

 private:
  const HostedTable& table_;
  const ServiceClock& time_;
  const JobLifetimes& lifetimes_;
};

}  // namespace harpe::training
