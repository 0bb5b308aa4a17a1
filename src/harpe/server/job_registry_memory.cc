// Which jobs are in memory, and how they come there and leave it.

#include <algorithm>
#include <utility>

#include "harpe/job/job_size.h"
#include "harpe/server/job_registry.h"
#include "harpe/server/job_summary.h"

namespace harpe {
namespace {

/// A job that was looked at may be looked at again.
constexpr Seconds kLookedAt{60};
constexpr std::size_t kSummarisedAtOnce = 20;

Error unreadable(const std::string& id, const Error& why) {
  return Error::of(
      ErrorCode::kUnavailable,
      "job " + id + " is stored, but cannot be read; removing it frees its id: " + why.text());
}

}  // namespace

void JobRegistry::load(const std::string& id, Loaded done) {
  if (const JobPtr job = find(id)) {
    job->used = clock_.now();
    return done(job);
  }
  const auto found = stored_.find(id);
  if (found == stored_.end()) return done(JobPtr());
  Stored& stored = found->second;
  stored.waiting.push_back(std::move(done));
  if (std::exchange(stored.loading, true)) return;
  readers_->run(id, [this, id, claim = stored.claim, at = now()] {
    Result<JobPtr> job = JobPtr();
    const Result<std::optional<StoredJob>> text = store_->job(id);
    if (!text.ok()) {
      job = store_failure("the job cannot be read now", text.error());
    } else if (*text) {
      job = read_hosted_job(*store_, **text, at, log_);
    }
    work_.post([this, id, claim, job = std::move(job)] { loaded(id, claim, job); });
  });
}

void JobRegistry::loaded(const std::string& id, const JobClaim& claim, const Result<JobPtr>& job) {
  const auto found = stored_.find(id);
  // It was removed or let go meanwhile, and may have been changed by another server since.
  if (found == stored_.end() || found->second.claim != claim) return;
  std::vector<Loaded> waiting = std::exchange(found->second.waiting, {});
  found->second.loading = false;
  const auto respond = [&](const Result<JobPtr>& with) {
    for (const Loaded& one : waiting) one(with);
  };
  if (!job.ok()) {
    const bool is_away = job.error().code == ErrorCode::kUnavailable;
    if (!is_away) log_("job " + id + " cannot be read: " + job.error().text());
    return respond(is_away ? job : unreadable(id, job.error()));
  }
  if (*job == nullptr) {  // another server has removed it
    stored_.erase(found);
    return respond(JobPtr());
  }
  if (Status room = make_room(memory_of((*job)->job.spec())); !room.ok()) {
    return respond(room.error());
  }
  const bool has_summary = !found->second.summary.text.empty();
  if (has_summary) (*job)->summary = std::move(found->second.summary.text);
  (*job)->claim = claim;
  ++counts_.loads;
  add(*job);
  if (const auto doubted = doubted_.find(id); doubted != doubted_.end()) {
    save(*job);
    doubted->second = (*job)->saving.revisions.newest();
  }
  if (!has_summary) saver_.refresh(summary_of(**job), claim.epoch);
  respond(*job);
  unload_idle(kMostIdleLoaded);
}

void JobRegistry::wake(const JobPtr& job) {
  job->used = clock_.now();
  if (!job->job.asleep()) return;
  job->job.go_on(now());
  follow(job);
}

bool JobRegistry::is_idle(const HostedJob& job) const {
  return store_ != nullptr && !removals_.contains(job.id) && job.saving.waiting.empty() &&
         (job.job.asleep() || activity(job) != Activity::kActive) &&
         job.listeners.interest() == JobListener::Interest::kNone;
}

/// All but the `most` of them that were used last, which go some time later.
void JobRegistry::unload_idle(std::size_t most) {
  const Seconds kept = std::min(kLookedAt, options_.lifetimes.idle_after);
  const Instant recent = clock_.now() + kept * -1;
  std::vector<JobPtr> idle;
  for (const auto& [id, job] : jobs_) {
    if (!is_idle(*job)) continue;
    if (job->touched) save(job);  // it leaves when that is stored
    if (job->saving.revisions.is_stored() && job->saving.events.empty()) idle.push_back(job);
  }
  std::ranges::sort(idle, {}, [](const JobPtr& job) { return job->used; });
  for (std::size_t i = 0; i < idle.size(); ++i) {
    if (idle.size() - i > most || idle[i]->used < recent) unload(idle[i]);
  }
}

void JobRegistry::unload(const JobPtr& job) {
  ++counts_.unloads;
  refresh_summary(*job);
  Stored stored{.summary = summary_of(*job), .claim = job->claim};
  job->unloaded = true;
  drop(job, Error::of(ErrorCode::kUnavailable, "the job has left memory; ask again"));
  stored_.insert_or_assign(job->id, std::move(stored));
}

void JobRegistry::drop(const JobPtr& job, const Status& why) {
  planner_.cancel(job);
  memory_ -= job->memory;
  jobs_.erase(job->id);
  for (const SaveState::Waiting& one : std::exchange(job->saving.waiting, {})) one.done(why);
  job->listeners.for_each([](JobListener& listener) { listener.changed(); });
}

JobSummary JobRegistry::summary_of(const HostedJob& job) const {
  // What it says of iterations is not in the job any more.
  const bool as_stored = job.job.asleep() && !job.summary.empty();
  JobSummary summary{.job = job.id,
                     .text = as_stored ? job.summary : summary_text(job),
                     .heard = job.job.heard().value,
                     .ended = {}};
  if (const auto ended = job.job.ended()) summary.ended = ended->value;
  return summary;
}

void JobRegistry::refresh_summary(const HostedJob& job) {
  if (!job.job.asleep()) saver_.refresh(summary_of(job), job.claim.epoch);
}

Activity JobRegistry::activity(const HostedJob& job) const {
  return activity_of(job.job.heard(), job.job.ended(), now(), options_.lifetimes);
}

Activity JobRegistry::activity(const JobSummary& summary) const {
  const std::optional<Seconds> ended =
      summary.ended ? std::optional(Seconds{*summary.ended}) : std::nullopt;
  return activity_of(Seconds{summary.heard}, ended, now(), options_.lifetimes);
}

/// Jobs that an older Harpe has stored have no summary before they are read.
void JobRegistry::summarise_some() {
  for (std::size_t i = 0; i < kSummarisedAtOnce && !unsummarised_.empty(); ++i) {
    const std::string id = std::move(unsummarised_.back());
    unsummarised_.pop_back();
    load(id, [](const Result<JobPtr>&) {});
  }
}

Result<JobPtr> read_hosted_job(Store& store, const StoredJob& stored, Seconds now,
                               const std::function<void(const std::string&)>& log) {
  Result<std::map<std::string, std::string>> parts = store.parts(stored.id);
  if (!parts.ok()) return store_failure("the job cannot be read now", parts.error());
  const Result<std::optional<std::string>> text = store.plans(stored.id);
  if (!text.ok()) return store_failure("the job cannot be read now", text.error());
  std::optional<PlanTable> plans;
  if (*text) {
    Result<PlanTable> read = PlanTable::parse(**text, stored.id);
    if (!read.ok()) {
      log("the plans of job " + stored.id + " cannot be read: " + read.error().text());
    } else {
      plans = *std::move(read);
    }
  }
  const Result<std::optional<JobSummary>> summary = store.summary(stored.id);
  if (!summary.ok()) return store_failure("the job cannot be read now", summary.error());
  Job job = HARPE_TRY(Job::read({.state = stored.state,
                                 .parts = *std::move(parts),
                                 .heard = Seconds{*summary ? (*summary)->heard : 0}},
                                std::move(plans), now));
  auto hosted = std::make_shared<HostedJob>(stored.id, std::move(job));
  hosted->saving.revisions = Revisions::of_stored(stored.revision);
  return hosted;
}

}  // namespace harpe
