#pragma once
/// \file
/// Which jobs get a worker for their plans, and when.
///
/// First plans come in the order in which they were asked for; a large job leaves one worker to
/// small ones. Better plans are searched for one job at a time, of those whose ranks were heard
/// last before all others; a job that falls silent or ends is not searched for. What waits is a
/// name in a queue: nothing of a job is copied before its turn.
///
/// On the loop's thread.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "harpe/plan/frontier/frontier.h"
#include "harpe/training/server/hosted_job.h"
#include "harpe/training/server/loop_work.h"
#include "harpe/training/server/workers.h"

namespace harpe::training {

/// Shared by the loop and the worker.
struct HostedJob::Work {
  std::uint64_t ticket = 0;
  bool first_done = false;
  bool large = false;
  std::atomic<bool> running = false, wanted = true;
  std::atomic<double> fraction = 0;
};

class JobPlanner {
 public:
  /// Plans of a job, or why there are none. \param json  of the plans, as the store keeps them
  using Deliver =
      std::function<void(const JobPtr&, std::uint64_t ticket, const Result<plan::PlanTable>& plans,
                         const std::string& json, bool better_follow)>;
  JobPlanner(Loop& loop, int workers, const MakeWorkers& make_workers, Deliver deliver);

  /// Makes plans by `Job::characterize_request`, in place of what was asked for before.
  void plan(const JobPtr& job);
  /// Makes plans for one straggler's costs or for an objective, beside those of the job.
  void plan_beside(const JobPtr& job, CharacterizeRequest request);
  /// Nothing more is to be done for the job.
  void cancel(const JobPtr& job);
  /// Gives up the search for better plans, if that is what is left.
  void cancel_search(const JobPtr& job);

  std::size_t waiting() const { return first_.size() + better_.size(); }
  std::size_t running() const { return small_running_ + large_running_ + (searching_ ? 1 : 0); }
  std::uint64_t planned() const { return planned_; }

  /// Instructions of an iteration from which a job is a large one.
  static constexpr int kLarge = 16'384;

 private:
  struct Waiting {
    JobPtr job;
    std::shared_ptr<HostedJob::Work> work;
    /// Beside those of the job; none: by `Job::characterize_request`.
    std::optional<CharacterizeRequest> beside = {};
  };
  static std::shared_ptr<HostedJob::Work> work_for(const JobPtr& job, std::uint64_t ticket);
  void start_what_may();
  bool may_start(const HostedJob::Work& work) const;
  void start_first(const Waiting& waiting);
  void first_is_done(const Waiting& waiting, bool has_plans, std::optional<Frontier> frontier);
  void start_search();
  void search(const Waiting& waiting, std::optional<Frontier> frontier);

  LoopWork work_;
  const std::size_t workers_;
  Deliver deliver_;
  std::deque<Waiting> first_, better_;
  std::size_t small_running_ = 0, large_running_ = 0;
  bool searching_ = false;
  std::uint64_t planned_ = 0;
  // Last: their threads end before what they work on goes.
  std::unique_ptr<Workers> characterizers_, improver_;
};

}  // namespace harpe::training
