#include "harpe/server/job_registry.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/job/job_json.h"
#include "harpe/server/characterize_job.h"
#include "harpe/store/checks.h"

namespace harpe {
namespace {

constexpr std::size_t kNoticesKept = 256;
/// Bodies of specifications that are kept to know the same one again without reading it.
constexpr std::size_t kSameBodies = 8, kLongestSameBody = 64 * 1024;
constexpr Seconds kStoreRetry{1};
constexpr std::size_t kMostUnsavedEvents = 100'000;

/// Whatever is wrong with the store is no fault of the client that meets it.
Error store_failure(const std::string& what, const Error& why) {
  return Error::of(ErrorCode::kUnavailable, what + ": " + why.text());
}

}  // namespace

/// Shared by the loop and the worker.
struct HostedJob::Work {
  std::uint64_t ticket = 0;
  std::atomic<bool> running = false, wanted = true;
  std::atomic<double> fraction = 0;
};

std::optional<Characterization> HostedJob::characterization() const {
  if (work == nullptr) return std::nullopt;
  return Characterization{work->ticket, work->running, work->fraction};
}

JobRegistry::JobRegistry(ServerLoop& loop, Clock& clock, Store* store, Options options,
                         std::function<void(const std::string&)> log)
    : loop_(loop),
      clock_(clock),
      store_(store),
      options_(std::move(options)),
      log_(std::move(log)),
      characterizers_(options_.workers),
      improvers_(1),
      readers_(1),
      writers_(1) {}

JobRegistry::~JobRegistry() {
  *alive_ = false;
  for (const auto& [id, job] : jobs_) {
    if (job->work != nullptr) job->work->wanted = false;
  }
  if (store_ == nullptr) return;
  writers_.finish();
  for (const auto& [id, job] : jobs_) {
    if (job->stored < job->revision) unsaved_.insert(job);
  }
  std::vector<std::pair<JobPtr, std::int64_t>> saved;
  const StoreChanges changes = gather(saved);
  if (changes.jobs.empty() && changes.events.empty()) return;
  if (const auto written = store_->write(changes); !written.ok()) {
    log_("not stored at the end: " + written.error().text());
  }
}

void JobRegistry::on_loop(std::function<void()> work) {
  loop_.post([alive = alive_, work = std::move(work)] {
    if (*alive) work();
  });
}

Result<JobRegistry::JobPtr> read_hosted_job(Store& store, const StoredJob& stored, Seconds now,
                                            const std::function<void(const std::string&)>& log) {
  const Result<std::optional<std::string>> text = store.plans(stored.id);
  if (!text.ok()) return text.error();
  std::optional<PlanTable> plans;
  if (*text) {
    Result<PlanTable> read = PlanTable::parse(**text, stored.id);
    if (!read.ok()) {
      log("the plans of job " + stored.id + " cannot be read: " + read.error().text());
    } else {
      plans = *std::move(read);
    }
  }
  Result<Job> job = Job::restore(stored.state, std::move(plans), now);
  if (!job.ok()) return std::move(job).error();
  auto hosted = std::make_shared<HostedJob>(stored.id, *std::move(job));
  hosted->revision = hosted->stored = stored.revision;
  return hosted;
}

Status JobRegistry::restore() {
  if (store_ == nullptr) return ok_status();
  const Result<std::vector<StoredJob>> stored = store_->jobs();
  if (!stored.ok()) return stored.error();
  for (const StoredJob& one : *stored) {
    const Result<JobPtr> job = read_hosted_job(*store_, one, now(), log_);
    if (job.ok()) {
      add(*job);
    } else if (job.error().code == ErrorCode::kUnavailable) {
      return job.error();
    } else {
      log_("job " + one.id + " cannot be read and is left as it is: " + job.error().text());
    }
  }
  return ok_status();
}

void JobRegistry::add(const JobPtr& job) {
  job->told_phase = job->job.phase();
  jobs_.insert_or_assign(job->id, job);
  follow(job);
}

void JobRegistry::put(const std::string& id, std::string specification,
                      std::function<void(Result<Registered>)> done) {
  if (const JobPtr known = find(id);
      known != nullptr && known->same_bodies.contains(specification)) {
    return done(Registered{known, false});
  }
  // A few words can ask for a schedule of a million instructions.
  readers_.run([this, id, body = std::move(specification), done = std::move(done),
                at = now()]() mutable {
    Result<JobSpec> spec = parse_job_spec(body);
    std::string canonical = spec.ok() ? job_spec_json(*spec) : std::string();
    Result<Job> created = spec.ok() ? Job::create(*std::move(spec), at) : Result<Job>(spec.error());
    if (created.ok() && !options_.url.empty()) {
      const Result<bool> mine = store_->claim(id, options_.url);
      if (!mine.ok()) created = mine.error();
      if (mine.ok() && !*mine) {
        return on_loop([done = std::move(done)] { done(Registered{nullptr, false}); });
      }
    }
    auto job = std::make_shared<Result<Job>>(std::move(created));
    on_loop([this, id, body = std::move(body), canonical = std::move(canonical),
             done = std::move(done), job]() mutable {
      if (!job->ok()) return done(std::move(*job).error());
      const auto remember = [&body](HostedJob& hosted) {
        if (body.size() > kLongestSameBody || hosted.same_bodies.size() >= kSameBodies) return;
        hosted.same_bodies.insert(std::move(body));
      };
      if (const JobPtr known = find(id)) {
        if (job_spec_json(known->job.spec()) != canonical) {
          return done(Error::of(ErrorCode::kConflict,
                                "job " + id +
                                    " is registered with another specification; delete "
                                    "it first, or choose another id"));
        }
        remember(*known);
        return done(Registered{known, false});
      }
      if (jobs_.size() >= options_.most_jobs) {
        return done(Error::of(ErrorCode::kUnavailable,
                              "the server holds " + std::to_string(jobs_.size()) +
                                  " jobs, as many as it may; delete some that have ended"));
      }
      const auto hosted = std::make_shared<HostedJob>(id, *std::move(*job));
      remember(*hosted);
      add(hosted);
      done(Registered{hosted, true});
    });
  });
}

JobRegistry::JobPtr JobRegistry::find(const std::string& id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : found->second;
}

void JobRegistry::drop(const JobPtr& job, const Status& why) {
  jobs_.erase(job->id);
  unsaved_.erase(job);
  if (job->work != nullptr) job->work->wanted = false;
  for (const HostedJob::Waiting& one : std::exchange(job->waiting, {})) one.done(why);
  for (const auto& weak : job->listeners) {
    if (const auto listener = weak.lock()) listener->changed();
  }
}

void JobRegistry::remove(const JobPtr& job, std::function<void(const Status&)> done) {
  if (store_ == nullptr) {
    job->deleted = true;
    drop(job, Error::of(ErrorCode::kNotFound, "the job was deleted"));
    return done(ok_status());
  }
  writers_.run([this, job, done = std::move(done)]() mutable {
    const Status removed = store_->remove(job->id);
    on_loop([this, job, removed, done = std::move(done)] {
      if (removed.ok() && !job->is_over()) {
        job->deleted = true;
        drop(job, Error::of(ErrorCode::kNotFound, "the job was deleted"));
      }
      done(removed.ok()
               ? removed
               : store_failure("the job is still there; ask again later", removed.error()));
    });
  });
}

void JobRegistry::tell(const JobPtr& job, std::string kind, std::string text, double at) {
  // It may hold names that clients chose. One event that the store refuses would keep everything
  // else from being stored.
  if (!is_storable(text)) text = in_quotes(text, text.size());
  if (store_ != nullptr && unsaved_events_.size() < kMostUnsavedEvents) {
    unsaved_events_.push_back({.at = at, .job = job->id, .kind = kind, .text = text});
    save_soon(nullptr);
  }
  job->notices.push_back({.sequence = ++job->newest_notice,
                          .at = at,
                          .kind = std::move(kind),
                          .text = std::move(text)});
  if (job->notices.size() > kNoticesKept) job->notices.pop_front();
}

void JobRegistry::follow(const JobPtr& job) {
  JobEffects effects = job->job.take_effects();
  bool news = false;
  for (const Notice& notice : effects.notices) {
    const bool is_warning = notice.level == Notice::Level::kWarning;
    if (is_warning) log_("job " + job->id + ": " + notice.text);
    tell(job, is_warning ? "warning" : "info", notice.text, notice.at.value);
    news = true;
  }
  if (job->job.phase() != job->told_phase) {
    job->told_phase = job->job.phase();
    tell(job, "phase", name_of(job->told_phase), now().value);
    news = true;
  }
  if (effects.characterize) characterize_later(job, *std::move(effects.characterize));
  if (effects.own_plans) make_own_plans_later(job, *std::move(effects.own_plans));
  if (effects.orders) {
    ++counts_.plan_changes;
    job->orders_at = clock_.now();
  }
  if (effects.save || effects.plans) {
    ++job->revision;
    save_soon(job);
  }
  if (!news && !effects.orders) return;
  std::erase_if(job->listeners, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : job->listeners) {
    if (const auto listener = weak.lock()) listener->changed();
  }
}

void JobRegistry::characterize_later(const JobPtr& job, CharacterizeRequest request) {
  if (job->work != nullptr) job->work->wanted = false;
  const auto work = std::make_shared<HostedJob::Work>();
  work->ticket = request.ticket;
  job->work = work;
  // The worker has its own copy: the job goes on living on the loop's thread.
  const auto spec = std::make_shared<const JobSpec>(job->job.spec());
  characterizers_.run([this, job, work, spec, request = std::move(request)]() mutable {
    if (!work->wanted) return;
    work->running = true;
    auto first = std::make_shared<const Characterized>(
        characterize_job(*spec, request, work->fraction, [work] { return work->wanted.load(); }));
    work->running = false;
    on_loop([this, job, work, spec, first, request = std::move(request)]() mutable {
      ++counts_.characterizations;
      hand_over(job, *work, first->plans, first->json, first->plans.ok());
      if (!first->plans.ok() && job->work == work) job->work = nullptr;
      if (!first->plans.ok() || !work->wanted) return;
      improvers_.run([this, job, work, spec, first, request = std::move(request)] {
        if (!work->wanted) return;
        work->running = true;
        auto better = std::make_shared<const Characterized>(
            better_plans(*spec, request, *first->frontier, *first->plans, work->fraction,
                         [work] { return work->wanted.load(); }));
        on_loop([this, job, work, better] {
          hand_over(job, *work, better->plans, better->json, false);
          if (job->work == work) job->work = nullptr;
        });
      });
    });
  });
}

/// Of one straggler: a few, quickly, and not stored. Those for all pipelines go on being made.
void JobRegistry::make_own_plans_later(const JobPtr& job, CharacterizeRequest request) {
  const auto spec = std::make_shared<const JobSpec>(job->job.spec());
  characterizers_.run([this, job, spec, request = std::move(request)] {
    std::atomic<double> fraction = 0;
    const auto made = std::make_shared<const Characterized>(
        characterize_job(*spec, request, fraction, [] { return true; }));
    on_loop([this, job, made, ticket = request.ticket] {
      if (job->is_over()) return;
      act(job, [&](Job& one, Seconds at) {
        one.characterized(ticket, made->plans, at);
        return true;
      });
    });
  });
}

void JobRegistry::hand_over(const JobPtr& job, const HostedJob::Work& work,
                            const Result<PlanTable>& plans, const std::string& json,
                            bool better_follow) {
  if (job->is_over()) return;
  act(job, [&](Job& one, Seconds at) {
    const PlanTable* before = one.plans();
    one.characterized(work.ticket, plans, at, better_follow);
    if (one.plans() != before) job->unsaved_plans = json;
    return true;
  });
}

void JobRegistry::count_delivery(const HostedJob& job) {
  const double seconds = (clock_.now() - job.orders_at).value;
  ++counts_.deliveries;
  counts_.delivery_seconds += seconds;
  counts_.slowest_delivery = std::max(counts_.slowest_delivery, seconds);
}

void JobRegistry::tick() {
  const auto jobs = jobs_;  // a tick may end one
  for (const auto& [id, job] : jobs) {
    act(job, [](Job& one, Seconds at) {
      one.tick(at);
      return true;
    });
    for (const auto& weak : job->listeners) {
      if (const auto listener = weak.lock()) listener->ticked();
    }
  }
  if (!unsaved_.empty() || !unsaved_events_.empty()) save_soon(nullptr);
}

void JobRegistry::prune(Seconds age) {
  if (store_ == nullptr) return;
  writers_.run([this, since = (now() - age).value] {
    const Result<std::int64_t> pruned = store_->prune({.since = since});
    if (!pruned.ok()) {
      on_loop([this, why = pruned.error().text()] { log_("old events stay: " + why); });
    }
  });
}

// --- The store ----------------------------------------------------------------------------------

void JobRegistry::when_stored(const JobPtr& job, std::function<void(const Status&)> done) {
  if (store_ == nullptr || job->stored >= job->revision) return done(ok_status());
  job->waiting.push_back({job->revision, std::move(done)});
  save_soon(job);
}

void JobRegistry::save_soon(const JobPtr& job) {
  if (store_ == nullptr) return;
  if (job != nullptr && !job->is_over()) unsaved_.insert(job);
  if (saving_ || save_posted_ || clock_.now() < retry_at_) return;
  save_posted_ = true;
  on_loop([this] {
    save_posted_ = false;
    save();
  });
}

StoreChanges JobRegistry::gather(std::vector<std::pair<JobPtr, std::int64_t>>& saved) {
  StoreChanges changes;
  for (const JobPtr& job : std::exchange(unsaved_, {})) {
    if (find(job->id) != job) continue;
    // A revision has one content, also where an earlier write was done but its answer lost.
    ++job->revision;
    changes.jobs.push_back({.job = {.id = job->id,
                                    .state = job->job.snapshot(),
                                    .revision = job->revision,
                                    .updated = now().value},
                            .plans = std::exchange(job->unsaved_plans, std::nullopt)});
    saved.emplace_back(job, job->revision);
  }
  changes.events = std::exchange(unsaved_events_, {});
  std::erase_if(changes.events,
                [this](const StoredEvent& event) { return !jobs_.contains(event.job); });
  return changes;
}

void JobRegistry::save() {
  if (saving_) return;
  std::vector<std::pair<JobPtr, std::int64_t>> jobs;
  StoreChanges changes = gather(jobs);
  if (changes.jobs.empty() && changes.events.empty()) return;
  saving_ = true;
  writers_.run([this, jobs = std::move(jobs), changes = std::move(changes)]() mutable {
    Result<std::vector<std::string>> written = store_->write(changes);
    on_loop([this, jobs = std::move(jobs), written = std::move(written),
             changes = std::move(changes)]() mutable { saved(jobs, written, std::move(changes)); });
  });
}

void JobRegistry::saved(const std::vector<std::pair<JobPtr, std::int64_t>>& jobs,
                        const Result<std::vector<std::string>>& written, StoreChanges changes) {
  saving_ = false;
  if (store_works_ != written.ok()) {
    log_(written.ok() ? "the store works again"
                      : "the store does not work: " + written.error().text());
  }
  store_works_ = written.ok();
  ++(written.ok() ? counts_.saves : counts_.save_failures);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto& [job, revision] = jobs[i];
    if (job->is_over()) continue;
    if (written.ok() && std::ranges::find(*written, job->id) != written->end()) {
      log_("job " + job->id + " was changed by another server, which has it now");
      job->moved = true;
      drop(job, Error::of(ErrorCode::kUnavailable, "another server has this job now; ask again"));
      continue;
    }
    if (written.ok()) {
      job->stored = std::max(job->stored, revision);
    } else {
      unsaved_.insert(job);
      if (!job->unsaved_plans) job->unsaved_plans = std::move(changes.jobs[i].plans);
    }
    // What waits was done; when it cannot be stored now, that is said, and it is stored later.
    const Status status = written.ok()
                              ? ok_status()
                              : Status(Error::of(ErrorCode::kUnavailable,
                                                 "this was done but could not be stored yet; the "
                                                 "same again is harmless: " +
                                                     written.error().text()));
    std::vector<HostedJob::Waiting> waiting = std::exchange(job->waiting, {});
    for (HostedJob::Waiting& one : waiting) {
      one.revision <= revision ? one.done(status) : job->waiting.push_back(std::move(one));
    }
  }
  if (!written.ok()) {
    unsaved_events_.insert(unsaved_events_.begin(), changes.events.begin(), changes.events.end());
    if (unsaved_events_.size() > kMostUnsavedEvents) unsaved_events_.resize(kMostUnsavedEvents);
    retry_at_ = clock_.now() + kStoreRetry;
    return;
  }
  if (!unsaved_.empty() || !unsaved_events_.empty()) save_soon(nullptr);
}

void JobRegistry::log_of(const JobPtr& job, std::int64_t after, int limit,
                         std::function<void(Result<std::vector<LoggedNotice>>)> done) {
  if (store_ == nullptr) {
    std::vector<LoggedNotice> found;
    for (const LoggedNotice& notice : job->notices) {
      if (notice.sequence > after && found.size() < static_cast<std::size_t>(limit)) {
        found.push_back(notice);
      }
    }
    return done(std::move(found));
  }
  writers_.run([this, id = job->id, after, limit, done = std::move(done)]() mutable {
    const Result<std::vector<StoredEvent>> events = store_->events(id, after, limit);
    Result<std::vector<LoggedNotice>> found = std::vector<LoggedNotice>();
    if (!events.ok()) {
      found = store_failure("the log cannot be read now", events.error());
    } else {
      for (const StoredEvent& event : *events) {
        found->push_back({event.sequence, event.at, event.kind, event.text});
      }
    }
    on_loop(
        [done = std::move(done), found = std::move(found)]() mutable { done(std::move(found)); });
  });
}

}  // namespace harpe
