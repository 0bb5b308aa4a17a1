#pragma once
/// \file
/// Better plans than those that jobs run by, searched for in the background.
///
/// One thread searches for all jobs of a server, one slice (`SearchCourse`) at a time, those that
/// had the least first. It is the first to give way on its machine, and nothing waits for it: first
/// plans, stragglers' plans and the tables of better ones have threads of their own (`JobPlanner`).
/// What it finds changes a job as other plans do (`Job::found_better`). Plans for stragglers, which
/// hold for a while only, are not searched for.
///
/// A search ends at once when its job, what the job wants or its frontier changes. It is kept in
/// memory alone: a server that takes a job up begins anew, and takes only what is better than the
/// plan that was stored. On the loop's thread.

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
    kHalted,  ///< nothing is to be searched for at the moment: a straggler, say
    kEnded,
  };
  std::uint64_t ticket = 0;  ///< `Job::search_ticket`
  SearchCourse course;
  Is is = Is::kHalted;
  double gained = 0;  ///< share of the energy of the plan that was there before
  /// Of the slice that runs; false ends it.
  std::shared_ptr<std::atomic<bool>> wanted = {};
};
/// "waiting", "searching", "halted" or "ended".
const char* name_of(HostedJob::Search::Is is);

class PlanSearcher {
 public:
  /// Takes what was found; whether the job runs by it now. \param json  as the store keeps it
  using Deliver = std::function<bool(const JobPtr&, std::uint64_t ticket,
                                     const std::shared_ptr<const plan::PlanTable>& plans,
                                     const std::string& json)>;
  /// \param clock  must outlive this; \param limits  of the search for one plan
  PlanSearcher(Loop& loop, const Clock& clock, const SearchLimits& limits,
               const MakeWorkers& make_workers, Deliver deliver);
  ~PlanSearcher();
  PlanSearcher(const PlanSearcher&) = delete;
  PlanSearcher& operator=(const PlanSearcher&) = delete;

  /// Begins, goes on with or ends the search for a job, by what it wants now. O(1) where nothing
  /// has changed, but for `Job::search_ticket`.
  void follow(const JobPtr& job);
  /// Nothing is wanted for the job for now.
  void halt(const JobPtr& job);

  std::size_t waiting() const { return waiting_.size(); }
  bool is_running() const { return running_; }
  std::uint64_t found() const { return found_; }  ///< better plans, since the start

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
  std::shared_ptr<std::atomic<bool>> wanted_;  ///< of the slice that runs
  bool running_ = false;
  std::uint64_t found_ = 0;
  /// Of the last slice, by its search: a frontier is large, and most often the next one is the same
  /// job's.
  std::optional<Frontier> frontier_;
  std::weak_ptr<HostedJob::Search> frontier_of_;
  std::unique_ptr<Workers> worker_;  // last: its thread ends before what it works on goes
};

}  // namespace harpe::training
