#include "harpe/training/server/plan_searcher.h"

#include <algorithm>
#include <array>
#include <utility>

#include "harpe/training/job/make_plans.h"

namespace harpe::training {
namespace {

constexpr int kNice = 19;

}  // namespace

const char* name_of(HostedJob::Search::Is is) {
  constexpr std::array kNames = {"waiting", "searching", "halted", "ended"};
  return kNames.at(static_cast<std::size_t>(is));
}

/// One task of the worker's thread, with copies of its inputs, because the job changes on the
/// loop's thread.
struct PlanSearcher::Slice {
  JobSpec spec;
  CharacterizeRequest request;
  std::shared_ptr<const plan::PlanTable> known;
  SearchCourse course;
  std::shared_ptr<std::atomic<bool>> wanted;
  std::optional<Frontier> frontier;
  // The results:
  Seconds taken{};
  std::shared_ptr<const plan::PlanTable> better = {};  ///< merged with the known plans
  std::string json = {};
  bool failed = false;
};

PlanSearcher::PlanSearcher(Loop& loop, const Clock& clock, const SearchLimits& limits,
                           const MakeWorkers& make_workers, Deliver deliver)
    : work_(loop), clock_(clock), limits_(limits), deliver_(std::move(deliver)) {
  if (limits_.time > Seconds{0}) worker_ = make_workers({.threads = 1, .nice = kNice});
}

PlanSearcher::~PlanSearcher() {
  if (wanted_ != nullptr) *wanted_ = false;
}

void PlanSearcher::follow(const JobPtr& job) {
  if (worker_ == nullptr) return;
  const std::uint64_t ticket = job->job.search_ticket();
  if (ticket == 0) return halt(job);
  if (job->search != nullptr && job->search->ticket != ticket) {
    halt(job);
    job->search.reset();
  }
  if (job->search == nullptr) {
    job->search = std::make_shared<HostedJob::Search>(
        HostedJob::Search{.ticket = ticket, .course = SearchCourse(limits_)});
  }
  if (job->search->is != HostedJob::Search::Is::kHalted) return;
  job->search->is = HostedJob::Search::Is::kWaiting;
  waiting_.push_back(job);
  start_next();
}

void PlanSearcher::halt(const JobPtr& job) {
  if (job->search == nullptr || job->search->is == HostedJob::Search::Is::kEnded) return;
  if (job->search->wanted != nullptr) *job->search->wanted = false;
  std::erase(waiting_, job);
  job->search->is = HostedJob::Search::Is::kHalted;
}

void PlanSearcher::start_next() {
  if (running_) return;
  const auto stale = [](const JobPtr& one) {
    const bool is_stale = one->job.search_ticket() != one->search->ticket;
    if (is_stale) one->search->is = HostedJob::Search::Is::kHalted;
    return is_stale;
  };
  std::erase_if(waiting_, stale);
  if (waiting_.empty()) return;
  const auto next = std::ranges::min_element(
      waiting_, {}, [](const JobPtr& one) { return one->search->course.slice(); });
  const JobPtr job = std::move(*next);
  waiting_.erase(next);
  const SearchPtr search = job->search;
  if (frontier_of_.lock() != search) frontier_.reset();
  running_ = true;
  search->is = HostedJob::Search::Is::kRunning;
  search->wanted = wanted_ = std::make_shared<std::atomic<bool>>(true);
  const auto slice = std::make_shared<Slice>(Slice{.spec = job->job.spec(),
                                                   .request = job->job.search_request(),
                                                   .known = job->job.shared_plans(),
                                                   .course = search->course,
                                                   .wanted = wanted_,
                                                   .frontier = std::exchange(frontier_, {})});
  worker_->run(job->id, [this, job, search, slice] {
    PlanSearcher::search(*slice, clock_);
    work_.post([this, job, search, slice] { take(job, search, slice); });
  });
}

/// Runs on the worker's thread.
void PlanSearcher::search(Slice& slice, const Clock& clock) {
  const Instant began = clock.now();
  const auto find = [&]() -> Result<plan::PlanTable> {
    if (!slice.frontier) {
      const Pipeline pipeline = HARPE_TRY(planned_pipeline(slice.spec));
      slice.frontier = HARPE_TRY(characterize(slice.spec, pipeline, slice.request));
    }
    slice.course.begin_slice();
    const auto go_on = [&](const SearchProgress& progress) {
      return *slice.wanted && slice.course.goes_on(progress.windows, progress.energy,
                                                   progress.lower_bound, clock.now() - began);
    };
    return search_plan(slice.spec, slice.request, *slice.frontier, slice.course.slice(), go_on);
  };
  const Result<plan::PlanTable> found = find();
  slice.taken = clock.now() - began;
  slice.failed = !found.ok();
  if (slice.failed || plan::objective_gain(*slice.known, *found) < SearchCourse::kWorthwhile)
    return;
  slice.better =
      std::make_shared<const plan::PlanTable>(plan::PlanTable::merged(*slice.known, *found));
  slice.json = slice.better->stored_text();
}

void PlanSearcher::take(const JobPtr& job, const SearchPtr& search,
                        const std::shared_ptr<Slice>& slice) {
  running_ = false;
  wanted_.reset();
  if (!*slice->wanted) {
    search->course.give_up_slice(slice->taken);
  } else {
    search->course = slice->course;
    search->course.end_slice(slice->taken);
    search->wanted.reset();
    const bool over = slice->failed || search->course.ended();
    search->is = over ? HostedJob::Search::Is::kEnded : HostedJob::Search::Is::kHalted;
    if (!over) {
      frontier_ = std::move(slice->frontier);
      frontier_of_ = search;
    }
    const double gain = slice->better ? plan::objective_gain(*slice->known, *slice->better) : 0;
    if (slice->better && deliver_(job, search->ticket, slice->better, slice->json)) {
      ++found_;
      search->gained = 1 - (1 - search->gained) * (1 - gain);
    }
    if (!job->is_over()) follow(job);
  }
  start_next();
}

}  // namespace harpe::training
