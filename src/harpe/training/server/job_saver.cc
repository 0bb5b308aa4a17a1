#include "harpe/training/server/job_saver.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <ranges>
#include <utility>

#include "harpe/base/check.h"

namespace harpe::training {
namespace {

constexpr Seconds kStoreRetry{1}, kRefusedRetry{60};
/// Per job, while they cannot be stored.
constexpr std::size_t kMostUnsavedEvents = 1000;
/// Size limit of a transaction in bytes; a single job may exceed it.
constexpr std::size_t kBatchBytes = 16 * 1024 * 1024;
/// Consecutive failures after which the store is considered broken, not a job.
constexpr int kProbes = 3;
constexpr std::size_t kMostRowsAtOnce = 1 << 20;
constexpr std::int64_t kPrunedAtOnce = 20'000;
const std::string kInOrder;  // one owner for all work, which keeps its order

std::size_t bytes_of(const JobSave& save) {
  std::size_t bytes = save.job.state.size() + (save.plans ? save.plans->size() : 0);
  for (const auto& [name, text] : save.parts) bytes += text.size();
  return bytes;
}

/// Returns true if a retry cannot succeed.
bool is_definite(const Error& error) {
  return error.code == ErrorCode::kInvalidInput || error.code == ErrorCode::kInternal;
}

}  // namespace

Error store_failure(const std::string& what, const Error& why) {
  return Error::of(ErrorCode::kUnavailable, what + ": " + why.text());
}

JobSaver::JobSaver(Parts parts)
    : parts_(std::move(parts)),
      work_(parts_.loop),
      most_at_once_(kMostRowsAtOnce),
      writer_(parts_.make_workers({.threads = 1})) {}

JobSaver::~JobSaver() {
  if (parts_.store == nullptr) return;
  writer_->finish();
  if (in_flight_ && !(in_flight_->written && in_flight_->written->ok())) {
    // The loop has stopped, so the batch is taken back here. Otherwise the next text of a new job
    // would be stored without the job's specification.
    take_back(in_flight_->batch);
    for (const auto& [job, revision] : std::views::reverse(in_flight_->batch.jobs))
      if (!std::exchange(job->saving.queued, true)) queue_.push_front(job);
  }
  if (most_at_once_ < kMostRowsAtOnce) refresh_.clear();
  const auto write = [this](const Batch& batch) {
    if (batch.empty()) return;
    if (const auto written = parts_.store->write(batch.changes); !written.ok()) {
      parts_.log("not stored when the server stopped: " + written.error().text());
    }
  };
  while (!queue_.empty() || !refresh_.empty()) write(gather());
  for (const HostedPtr& job : apart_) {  // alone, so that a failure affects no other job
    Batch batch;
    gather(job, batch);
    write(batch);
  }
}

void JobSaver::changed(const HostedPtr& job) {
  job->saving.revisions.change();
  queue(job);
}

void JobSaver::add_event(const HostedPtr& job, StoredEvent event) {
  if (parts_.store == nullptr || job->saving.events.size() >= kMostUnsavedEvents) return;
  job->saving.events.push_back(std::move(event));
  queue(job);
}

void JobSaver::queue(const HostedPtr& job) {
  if (parts_.store == nullptr || !may_save(*job)) return;
  if (is_apart(*job) && parts_.clock.now() < job->saving.next_try) return;
  if (!std::exchange(job->saving.queued, true)) queue_.push_back(job);
  save_soon();
}

void JobSaver::refresh(JobSummary summary, std::int64_t epoch) {
  if (parts_.store == nullptr || removing_.contains(summary.job)) return;
  std::string id = summary.job;
  refresh_.insert_or_assign(std::move(id), Refresh{std::move(summary), epoch});
  save_soon();
}

void JobSaver::when_stored(const HostedPtr& job, std::function<void(const Status&)> done) {
  SaveState& saving = job->saving;
  const std::int64_t revision = saving.revisions.newest();
  if (parts_.store == nullptr || saving.revisions.stored() >= revision) return done(ok_status());
  saving.waiting.push_back({revision, std::move(done)});
  if (is_apart(*job) && !saving.queued) {
    return respond(*job, revision,
                   Error::of(ErrorCode::kUnavailable,
                             "this was done, but the store refuses the job; /health names it"));
  }
  queue(job);
}

void JobSaver::respond(Hosted& job, std::int64_t revision, const Status& status) {
  std::vector<SaveState::Waiting> waiting = std::exchange(job.saving.waiting, {});
  for (SaveState::Waiting& one : waiting) {
    one.revision <= revision ? one.done(status) : job.saving.waiting.push_back(std::move(one));
  }
}

void JobSaver::save_soon() {
  if (saving_ || save_posted_ || parts_.clock.now() < retry_at_) return;
  save_posted_ = true;
  work_.post([this] {
    save_posted_ = false;
    save();
  });
}

void JobSaver::gather(const HostedPtr& job, Batch& batch) {
  SaveState& saving = job->saving;
  saving.queued = false;
  if (!may_save(*job)) return;
  if (saving.revisions.differs()) {
    refresh_.erase(job->id);
    HostedTexts texts = job->take_texts();
    if (texts.plans) saving.plans = std::move(texts.plans);
    for (auto& [name, text] : texts.parts) saving.parts.insert_or_assign(name, std::move(text));
    const bool is_there = saving.revisions.in_store();
    batch.changes.jobs.push_back({.job = {.id = job->id,
                                          .state = std::move(texts.state),
                                          .revision = saving.revisions.write(),
                                          .updated = parts_.time.wall().value},
                                  .plans = std::exchange(saving.plans, std::nullopt),
                                  .parts = std::exchange(saving.parts, {}),
                                  .summary = job->summary(),
                                  .is_there = is_there});
  } else if (!saving.revisions.in_store()) {
    return;  // the store does not have the job, so it cannot have events
  }
  std::ranges::move(std::exchange(saving.events, {}), std::back_inserter(batch.changes.events));
  batch.changes.epochs[job->id] = job->claim.epoch;
  batch.jobs.emplace_back(job, saving.revisions.newest());
}

JobSaver::Batch JobSaver::gather() {
  Batch batch;
  std::size_t bytes = 0;
  while (!queue_.empty() && batch.jobs.size() < most_at_once_ && bytes < kBatchBytes) {
    const HostedPtr job = std::move(queue_.front());
    queue_.pop_front();
    const std::size_t before = batch.changes.jobs.size();
    gather(job, batch);
    if (batch.changes.jobs.size() > before) bytes += bytes_of(batch.changes.jobs.back());
  }
  if (most_at_once_ == kMostRowsAtOnce) {
    for (auto& [id, refresh] : std::exchange(refresh_, {})) {
      // A summary of an earlier claim is outdated.
      if (batch.changes.epochs.emplace(id, refresh.epoch).first->second != refresh.epoch) continue;
      batch.changes.summaries.push_back(std::move(refresh.summary));
    }
  }
  batch.changes.clock = parts_.time.mark();
  for (const auto& [id, epoch] : batch.changes.epochs) {
    HARPE_CHECK(!removing_.contains(id), "nothing of a job is written behind its removal");
  }
  return batch;
}

void JobSaver::save() {
  if (saving_) return;
  Batch batch = gather();
  if (batch.empty()) return;
  saving_ = true;
  in_flight_ = std::make_shared<Flight>(Flight{.batch = std::move(batch)});
  writer_->run(kInOrder, [this, flight = in_flight_] {
    flight->written = parts_.store->write(flight->batch.changes);
    work_.post([this, flight] {
      in_flight_.reset();
      saved(std::move(flight->batch), *flight->written);
    });
  });
}

void JobSaver::saved(Batch batch, const Result<std::vector<std::string>>& written) {
  saving_ = false;
  ++(written.ok() ? counts_.saves : counts_.failures);
  if (!written.ok()) return failed(std::move(batch), written.error());
  if (!std::exchange(works_, true)) parts_.log("the store works again");
  failed_in_a_row_ = 0;
  most_at_once_ = std::min(kMostRowsAtOnce, most_at_once_ * 2);
  for (const std::string& id : *written) parts_.lost(id, batch.changes.epochs.at(id));
  for (const auto& [job, revision] : batch.jobs) {
    const bool is_refused = std::ranges::find(*written, job->id) != written->end();
    if (!is_refused && !job->is_over()) done(job, revision);
  }
  if (!queue_.empty() || !refresh_.empty()) save_soon();
}

void JobSaver::done(const HostedPtr& job, std::int64_t revision) {
  job->saving.revisions.written(revision);
  if (is_apart(*job)) {
    parts_.log("the store accepts job " + job->id + " again");
    std::erase(apart_, job);
  }
  job->saving.refusals = 0;
  respond(*job, revision, ok_status());
}

/// Takes back the contents of a batch that was not written, except parts replaced since.
void JobSaver::take_back(Batch& batch) {
  std::map<std::string, std::vector<StoredEvent>> events;
  for (StoredEvent& event : batch.changes.events) events[event.job].push_back(std::move(event));
  auto save = batch.changes.jobs.begin();  // in the order of `batch.jobs`
  for (const auto& [job, revision] : batch.jobs) {
    SaveState& saving = job->saving;
    if (save != batch.changes.jobs.end() && save->job.id == job->id) {
      saving.revisions.failed(revision);
      if (!saving.plans) saving.plans = std::move(save->plans);
      saving.parts.merge(save->parts);
      ++save;
    }
    const auto had = events.find(job->id);
    if (had == events.end()) continue;
    std::ranges::move(saving.events, std::back_inserter(had->second));
    saving.events = std::move(had->second);
    if (saving.events.size() > kMostUnsavedEvents) saving.events.resize(kMostUnsavedEvents);
    events.erase(had);
  }
}

void JobSaver::failed(Batch batch, const Error& why) {
  take_back(batch);  // except summaries, which are refreshed within a minute
  const bool alone = batch.jobs.size() == 1 && batch.changes.summaries.empty();
  if (alone) refuse(batch.jobs.front().first, why);
  // The failure of a batch does not show which job causes it: its jobs are saved first, one by one.
  for (const auto& [job, revision] : std::views::reverse(batch.jobs)) {
    // The change was made, and is stored later. The response reports that it is not stored yet.
    respond(*job, revision,
            Error::of(ErrorCode::kUnavailable,
                      "this was done but is not stored yet; repeating the request is harmless: " +
                          why.text()));
    if (job->saving.queued || !may_save(*job) || is_apart(*job)) continue;
    job->saving.queued = true;
    alone ? queue_.push_back(job) : queue_.push_front(job);
  }
  most_at_once_ = 1;
  if (!is_definite(why) && (!alone || queue_.size() <= 1 || ++failed_in_a_row_ >= kProbes)) {
    if (std::exchange(works_, false)) parts_.log("the store fails: " + why.text());
    failed_in_a_row_ = 0;
    retry_at_ = parts_.clock.now() + kStoreRetry;
    return;
  }
  save_soon();
}

/// Handles a job that was saved alone and failed.
void JobSaver::refuse(const HostedPtr& job, const Error& why) {
  // If no other job was saved since the last refusal, the store fails, not the job.
  SaveState& saving = job->saving;
  const bool others_go = saving.refusals == 0 || counts_.saves > saving.last_refusal;
  if (!is_definite(why) && !others_go) return;
  saving.last_refusal = counts_.saves;
  if (++saving.refusals < kMostRefusals) return;
  saving.next_try = parts_.clock.now() + kRefusedRetry;
  if (saving.refusals > kMostRefusals) return;
  apart_.push_back(job);
  parts_.log("the store refuses job " + job->id +
             ", and is tried again every minute; other jobs are not affected: " + why.text());
}

std::vector<std::string> JobSaver::refused() const {
  std::vector<std::string> ids;
  for (const HostedPtr& job : apart_) {
    if (!job->is_over()) ids.push_back(job->id);
  }
  return ids;
}

void JobSaver::remove(std::vector<Removal> removals, std::function<void(const Removed&)> done) {
  if (parts_.store == nullptr) {
    Removed removed;
    for (Removal& one : removals) removed.gone.push_back(std::move(one.job));
    return done(removed);
  }
  std::vector<std::string> ids;
  for (const Removal& one : removals) {
    refresh_.erase(one.job);
    HARPE_CHECK(removing_.insert(one.job).second, "a job is removed once at a time");
    ids.push_back(one.job);
  }
  writer_->run(kInOrder, [this, ids = std::move(ids), removals = std::move(removals),
                          done = std::move(done)]() mutable {
    Removed removed;
    for (Removal& one : removals) {
      const Status status = parts_.store->remove(one.job, one.epoch);
      if (status.ok()) {
        removed.gone.push_back(std::move(one.job));
        continue;
      }
      removed.status = status;
      if (status.error().code != ErrorCode::kConflict) break;
      removed.lost.push_back(std::move(one));
    }
    work_.post([this, ids = std::move(ids), done = std::move(done), removed = std::move(removed)] {
      for (const std::string& id : ids) removing_.erase(id);
      done(removed);
    });
  });
}

void JobSaver::prune(Retention keep) {
  if (parts_.store == nullptr) return;
  keep.most_at_once = kPrunedAtOnce;
  writer_->run(kInOrder, [this, keep = std::move(keep)]() mutable {
    const Result<std::int64_t> pruned = parts_.store->prune(keep);
    work_.post([this, pruned, keep = std::move(keep)]() mutable {
      if (!pruned.ok()) return parts_.log("old events cannot be removed: " + pruned.error().text());
      if (*pruned >= kPrunedAtOnce) prune(std::move(keep));
    });
  });
}

void JobSaver::tick() {
  const Instant now = parts_.clock.now();
  std::erase_if(apart_, [](const HostedPtr& job) { return job->is_over(); });
  for (const HostedPtr& job : std::vector<HostedPtr>(apart_)) {
    const SaveState& saving = job->saving;
    if (now < saving.next_try) continue;
    if (saving.revisions.differs() || !saving.events.empty()) queue(job);
  }
  if (!queue_.empty() || !refresh_.empty()) save_soon();
}

}  // namespace harpe::training
