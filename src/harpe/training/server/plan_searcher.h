#pragma once
/// \file
/// Background search for better plans than the current plans of jobs.
///
/// One thread searches for all jobs of a server, one slice (`SearchCourse`) at a time, jobs with
/// the fewest slices first. It has the lowest priority on its machine, and nothing waits for it:
/// first plans, stragglers' plans and the tables of better plans have threads of their own
/// (`JobPlanner`). Better plans change a job in the same way as other plans (`Job::found_better`).
/// Plans for stragglers are temporary and are not searched for.
///
/// A search ends at once when its job, the job's objective or its frontier changes. Its state is
/// only in memory: a server that takes over a job starts again, and accepts only plans that are
/// better than the stored plan. Used on the loop's thread.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "harpe/base/clock.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/training/job/search_course.h"
#include "harpe/training/server/hosted_job.h"
#include "harpe/training/server/workers.h"

namespace harpe::training {

/// A search for a better plan of one job.
struct HostedJob::Search {
  enum class Is : unsigned char {
    kWaiting,  ///< for its turn
    kRunning,
    kHalted,  ///< there is nothing to search for now: a straggler, for example
    kEnded,
  };
  std::uint64_t ticket = 0;  ///< `Job::search_ticket`
  SearchCourse course;
  Is is = Is::kHalted;
  double gained = 0;  ///< fraction of the original plan's energy that was saved
  /// Set to false to end the running slice.
  std::shared_ptr<std::atomic<bool>> wanted = {};
};
/// Returns "waiting", "searching", "halted" or "ended".
const char* name_of(HostedJob::Search::Is is);

class PlanSearcher {
 public:
  /// Receives better plans. Returns true if the job uses them now. \param json  in the store's
  /// format
  using Deliver = std::function<bool(const JobPtr&, std::uint64_t ticket,
                                     const std::shared_ptr<const plan::PlanTable>& plans,
                                     const std::string& json)>;
  /// \param clock  must outlive this; \param limits  for the search of one plan
  PlanSearcher(Loop& loop, const Clock& clock, const SearchLimits& limits,
               const MakeWorkers& make_workers, Deliver deliver);
  ~PlanSearcher();
  PlanSearcher(const PlanSearcher&) = delete;
  PlanSearcher& operator=(const PlanSearcher&) = delete;

  /// Starts, continues or ends the search for a job, as the job now requires. O(1) if nothing has
  /// changed, plus the cost of `Job::search_ticket`.
  void follow(const JobPtr& job);
  /// Halts the search for the job.
  void halt(const JobPtr& job);

  std::size_t waiting() const { return waiting_.size(); }
  bool is_running() const { return running_; }
  std::uint64_t found() const { return found_; }  ///< number of better plans since the start

 private:
  using SearchPtr = std::shared_ptr<HostedJob::Search>;
  struct Slice;
  void start_next();
  static void search(Slice& slice, const Clock& clock);
  void take(const JobPtr& job, const SearchPtr& search, const std::shared_ptr<Slice>& slice);

  LoopWork work_;
  const Clock& clock_;
  const SearchLimits limits_;
  Deliver deliver_;
  std::deque<JobPtr> waiting_;
  std::shared_ptr<std::atomic<bool>> wanted_;  ///< of the running slice
  bool running_ = false;
  std::uint64_t found_ = 0;
  /// Frontier of the last slice and its search: a frontier is large, and most often the next slice
  /// is of the same job.
  std::optional<Frontier> frontier_;
  std::weak_ptr<HostedJob::Search> frontier_of_;
  std::unique_ptr<Workers> worker_;  // last: its thread ends before the data it uses is destroyed
};

}  // namespace harpe::training
