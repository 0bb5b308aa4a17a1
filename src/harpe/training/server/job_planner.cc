#include "harpe/training/server/job_planner.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "harpe/base/result.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/policy/plan_table.h"
#include "harpe/plan/schedule/pipeline.h"
#include "harpe/training/job/job.h"
#include "harpe/training/job/make_plans.h"
#include "harpe/training/wire/job_spec.h"

namespace harpe::training {
namespace {

constexpr int kPlannerNice = 10;  // work may wait; those who ask the server should not
/// Jobs whose ranks were heard so long ago come behind all others.
constexpr Seconds kLately{120};

struct Characterized {
  Result<plan::PlanTable> plans;
  std::string json;                  ///< of the plans, as the store keeps them
  std::optional<Frontier> frontier;  ///< in which better plans may be searched
};

/// With late clocks each plan takes a search of its own, so the first table has few plans.
constexpr int kFirstSwitchingPlans = 20;

Characterized with_json(plan::PlanTable plans, std::optional<Frontier> frontier) {
  std::string json = plans.stored_text();
  return {std::move(plans), std::move(json), std::move(frontier)};
}

Result<Frontier> frontier_of(const JobSpec& spec, const CharacterizeRequest& request,
                             const Progress& progress) {
  const Pipeline pipeline = HARPE_TRY(planned_pipeline(spec));
  return characterize(spec, pipeline, request, progress);
}

/// Makes the first plans of a job: close to the best, and hundreds of them in less than a second.
/// Called by several workers at once.
/// \param known  the plans of the job; a request for its objective alone adds one plan to them
/// \param fraction  set to how much is done, from 0 to 1
/// \param wanted  polled; false ends the work
Characterized characterize_job(const JobSpec& spec, const CharacterizeRequest& request,
                               const std::shared_ptr<const plan::PlanTable>& known,
                               std::atomic<double>& fraction, const std::function<bool()>& wanted) {
  const auto failed = [](Error error) { return Characterized{std::move(error), {}, {}}; };
  constexpr double kShareOfFrontier = 0.5;
  const Result<Frontier> frontier =
      frontier_of(spec, request, [&fraction](double done) { fraction = done * kShareOfFrontier; });
  if (!frontier.ok()) return failed(frontier.error());
  const bool is_switching =
      spec.switch_latency.longest() > Seconds{0} || spec.min_dwell > Seconds{0};
  Result<plan::PlanTable> plans = make_plans(
      spec, request, *frontier, Effort::kQuick, is_switching ? kFirstSwitchingPlans : spec.plans,
      wanted,
      [&fraction](double done) { fraction = kShareOfFrontier + done * (1 - kShareOfFrontier); });
  if (!plans.ok()) return failed(std::move(plans).error());
  if (request.only_objective && known != nullptr) plans = plan::PlanTable::merged(*known, *plans);
  return with_json(*std::move(plans), *frontier);
}

/// Makes the best plans that can be found, some tens of milliseconds each, and nowhere worse than
/// `first`.
/// \param frontier  of the same request; nullopt: it is made again
Characterized better_plans(const JobSpec& spec, const CharacterizeRequest& request,
                           std::optional<Frontier> frontier, const plan::PlanTable& first,
                           std::atomic<double>& fraction, const std::function<bool()>& wanted) {
  if (!frontier) {
    Result<Frontier> again = frontier_of(spec, request, {});
    if (!again.ok()) return {std::move(again).error(), {}, {}};
    frontier = *std::move(again);
  }
  Result<plan::PlanTable> plans = make_plans(spec, request, *frontier, Effort::kFull, spec.plans,
                                             wanted, [&fraction](double done) { fraction = done; });
  if (!plans.ok()) return {std::move(plans).error(), {}, {}};
  return with_json(plan::PlanTable::merged(first, *plans), {});
}

}  // namespace

std::optional<Characterization> HostedJob::characterization() const {
  if (work == nullptr) return std::nullopt;
  return Characterization{work->ticket, work->running, work->fraction};
}

JobPlanner::JobPlanner(Loop& loop, int workers, const MakeWorkers& make_workers, Deliver deliver)
    : work_(loop),
      workers_(static_cast<std::size_t>(std::max(1, workers))),
      deliver_(std::move(deliver)),
      characterizers_(
          make_workers({.threads = static_cast<int>(workers_) + 1, .nice = kPlannerNice})),
      improver_(make_workers({.threads = 1, .nice = kPlannerNice})) {}

std::shared_ptr<HostedJob::Work> JobPlanner::work_for(const JobPtr& job, std::uint64_t ticket) {
  const auto work = std::make_shared<HostedJob::Work>();
  work->ticket = ticket;
  work->large = instructions_of(job->job.spec()) >= kLarge;
  return work;
}

void JobPlanner::plan(const JobPtr& job) {
  if (job->work != nullptr) job->work->wanted = false;
  const auto work = work_for(job, job->job.characterize_request().ticket);
  job->work = work;
  first_.push_back({job, work});
  start_what_may();
}

void JobPlanner::plan_beside(const JobPtr& job, CharacterizeRequest request) {
  const auto work = work_for(job, request.ticket);
  first_.push_back({job, work, std::move(request)});
  start_what_may();
}

void JobPlanner::cancel(const JobPtr& job) {
  if (job->work == nullptr) return;
  job->work->wanted = false;
  job->work = nullptr;
}

void JobPlanner::cancel_search(const JobPtr& job) {
  if (job->work != nullptr && job->work->first_done) cancel(job);
}

bool JobPlanner::may_start(const HostedJob::Work& work) const {
  if (work.large) return large_running_ < workers_;
  return small_running_ + large_running_ < workers_ + 1;
}

void JobPlanner::start_what_may() {
  const auto gone = [](const Waiting& one) { return !one.work->wanted || one.job->is_over(); };
  std::erase_if(first_, gone);
  std::erase_if(better_, gone);
  for (auto next = first_.begin(); next != first_.end();) {
    if (!may_start(*next->work)) {
      ++next;
      continue;
    }
    const Waiting waiting = std::move(*next);
    next = first_.erase(next);
    start_first(waiting);
  }
  if (!searching_) start_search();
}

void JobPlanner::start_first(const Waiting& waiting) {
  ++(waiting.work->large ? large_running_ : small_running_);
  waiting.work->running = true;
  // The worker has its own copy: the job goes on living on the loop's thread.
  characterizers_->run(
      waiting.job->id,
      [this, waiting, spec = waiting.job->job.spec(), known = waiting.job->job.shared_plans(),
       request = waiting.beside ? *waiting.beside : waiting.job->job.characterize_request()] {
        const std::shared_ptr<HostedJob::Work> work = waiting.work;
        auto first = std::make_shared<Characterized>(characterize_job(
            spec, request, known, work->fraction, [work] { return work->wanted.load(); }));
        work_.post([this, waiting, first] {
          --(waiting.work->large ? large_running_ : small_running_);
          waiting.work->running = false;
          ++planned_;
          const bool better_follow = first->plans.ok() && !waiting.beside;
          deliver_(waiting.job, waiting.work->ticket, first->plans, first->json, better_follow);
          if (!waiting.beside) {
            first_is_done(waiting, first->plans.ok(), std::move(first->frontier));
          }
          start_what_may();
        });
      });
}

void JobPlanner::first_is_done(const Waiting& waiting, bool has_plans,
                               std::optional<Frontier> frontier) {
  const JobPtr& job = waiting.job;
  const std::shared_ptr<HostedJob::Work>& work = waiting.work;
  if (!has_plans) {
    if (job->work == work) job->work = nullptr;
    return;
  }
  if (!work->wanted) return;
  work->first_done = true;
  // A frontier is large: one that had to wait would be kept for each job in the queue.
  if (!searching_ && better_.empty()) return search(waiting, std::move(frontier));
  better_.push_back(waiting);
}

void JobPlanner::start_search() {
  if (better_.empty()) return;
  const auto heard = [](const Waiting& one) { return one.job->job.heard(); };
  const Seconds lately = std::ranges::max(better_, {}, heard).job->job.heard() - kLately;
  const auto next =
      std::ranges::find_if(better_, [&](const Waiting& one) { return heard(one) >= lately; });
  const Waiting waiting = std::move(*next);
  better_.erase(next);
  search(waiting, {});
}

void JobPlanner::search(const Waiting& waiting, std::optional<Frontier> frontier) {
  if (waiting.job->job.shared_plans() == nullptr) return cancel(waiting.job);
  searching_ = true;
  waiting.work->running = true;
  improver_->run(
      waiting.job->id,
      [this, waiting, frontier = std::move(frontier), spec = waiting.job->job.spec(),
       first = waiting.job->job.shared_plans(), request = waiting.job->job.characterize_request()] {
        const std::shared_ptr<HostedJob::Work> work = waiting.work;
        const auto wanted = [work] { return work->wanted.load(); };
        auto better = std::make_shared<const Characterized>(
            better_plans(spec, request, frontier, *first, work->fraction, wanted));
        work_.post([this, waiting, better] {
          searching_ = false;
          waiting.work->running = false;
          if (waiting.work->wanted) {
            deliver_(waiting.job, waiting.work->ticket, better->plans, better->json, false);
          }
          if (waiting.job->work == waiting.work) waiting.job->work = nullptr;
          start_what_may();
        });
      });
}

}  // namespace harpe::training
