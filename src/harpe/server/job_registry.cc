#include "harpe/server/job_registry.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>
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

std::string JobRegistry::random_incarnation() {
  std::random_device random;
  std::string text;
  while (text.size() < 16) text += static_cast<char>('a' + random() % 26);
  return text;
}

JobRegistry::JobRegistry(ServerLoop& loop, Clock& clock, Store* store, Options options,
                         std::function<void(const std::string&)> log)
    : loop_(loop),
      clock_(clock),
      store_(store),
      options_(std::move(options)),
      log_(std::move(log)),
      lease_(store == nullptr ? Lease() : store->lease()),
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
    const Result<std::optional<JobClaim>> claim = store_->claim(one.id);
    if (!claim.ok()) return claim.error();
    if (job.ok() && *claim) {
      (*job)->claim = **claim;
      add(*job);
    } else if (job.ok()) {
      log_("job " + one.id + " is another server's");
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
  if (const JobPtr known = find(id)) {
    const auto same = known->same_bodies.find(specification);
    if (same != known->same_bodies.end()) {
      Registered again = propose(known, std::nullopt, same->second);
      if (again.job != nullptr) return done(std::move(again));
    }
  }
  // A few words can ask for a schedule of a million instructions.
  readers_.run([this, id, body = std::move(specification), done = std::move(done), at = now(),
                incarnation = options_.new_incarnation()]() mutable {
    Result<JobSpec> spec = parse_job_spec(body);
    Result<Job> created = spec.ok() ? Job::create(*std::move(spec), at, std::move(incarnation))
                                    : Result<Job>(spec.error());
    auto job = std::make_shared<Result<Job>>(std::move(created));
    on_loop([this, id, body = std::move(body), done = std::move(done), job]() mutable {
      if (!job->ok()) return done(std::move(*job).error());
      const std::string digest = (*job)->specification();
      const JobPtr known = find(id);
      if (known == nullptr) return create(id, std::move(body), *std::move(*job), std::move(done));
      remember(*known, std::move(body), digest);
      done(propose(known, *std::move(*job), digest));
    });
  });
}

/// \param next  none: the body was read before. \returns no job where it has to be read again
JobRegistry::Registered JobRegistry::propose(const JobPtr& job, std::optional<Job> next,
                                             const std::string& specification) {
  const auto proposed = act(job, [&](Job& one, Seconds at) {
    return next ? std::optional(one.propose(*std::move(next), at))
                : one.propose_again(specification, at);
  });
  if (!proposed) return {};
  return {.job = job, .proposed = *proposed, .specification = specification};
}

void JobRegistry::remember(HostedJob& job, std::string body, const std::string& specification) {
  if (body.size() > kLongestSameBody || job.same_bodies.size() >= kSameBodies) return;
  job.same_bodies.emplace(std::move(body), specification);
}

/// A job that is nowhere else, as far as this server knows.
void JobRegistry::create(const std::string& id, std::string body, Job job,
                         std::function<void(Result<Registered>)> done) {
  if (jobs_.size() >= options_.most_jobs) {
    return done(Error::of(ErrorCode::kUnavailable,
                          "the server holds " + std::to_string(jobs_.size()) +
                              " jobs, as many as it may; delete some that have ended"));
  }
  const auto hosted = std::make_shared<HostedJob>(id, std::move(job));
  remember(*hosted, std::move(body), hosted->job.specification());
  const auto finish = [this, hosted,
                       done = std::move(done)](const Result<std::optional<JobClaim>>& claim) {
    if (!claim.ok()) return done(claim.error());
    const std::string digest = hosted->job.specification();
    // Another request for the same may have been faster.
    if (const JobPtr known = find(hosted->id)) {
      return done(propose(known, std::move(hosted->job), digest));
    }
    if (!*claim) return done(Registered{});
    hosted->claim = **claim;
    add(hosted);
    done(Registered{.job = hosted, .created = true, .specification = digest});
  };
  if (store_ == nullptr) return finish(std::optional(JobClaim{.epoch = 1}));
  readers_.run(
      [this, id, finish] { on_loop([finish, claim = store_->claim(id)] { finish(claim); }); });
}

JobRegistry::JobPtr JobRegistry::find(const std::string& id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : found->second;
}

void JobRegistry::tell_listeners(const JobPtr& job) {
  std::erase_if(job->listeners, [](const auto& weak) { return weak.expired(); });
  const auto listeners = job->listeners;  // one may leave
  for (const auto& weak : listeners) {
    if (const auto listener = weak.lock()) listener->changed();
  }
}

void JobRegistry::drop(const JobPtr& job, const Status& why) {
  jobs_.erase(job->id);
  unsaved_.erase(job);
  if (job->work != nullptr) job->work->wanted = false;
  for (const HostedJob::Waiting& one : std::exchange(job->waiting, {})) one.done(why);
  tell_listeners(job);
}

void JobRegistry::remove(const JobPtr& job, std::function<void(const Status&)> done) {
  if (store_ == nullptr) {
    job->deleted = true;
    drop(job, Error::of(ErrorCode::kNotFound, "the job was deleted"));
    return done(ok_status());
  }
  writers_.run([this, job, done = std::move(done)]() mutable {
    const Status removed = store_->remove(job->id, job->claim.epoch);
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
  if (effects.orders) {
    ++counts_.plan_changes;
    job->orders_at = clock_.now();
  }
  if (effects.save || effects.plans) {
    ++job->revision;
    save_soon(job);
  }
  if (news || effects.orders) tell_listeners(job);
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
    auto first = std::make_shared<const Characterized>(characterize_job(
        *spec, request, job->id, work->fraction, [work] { return work->wanted.load(); }));
    work->running = false;
    on_loop([this, job, work, spec, first] {
      ++counts_.characterizations;
      hand_over(job, *work, first->plans, first->json, first->plans.ok());
      if (!first->plans.ok() && job->work == work) job->work = nullptr;
      if (!first->plans.ok() || !work->wanted) return;
      improvers_.run([this, job, work, spec, first] {
        if (!work->wanted) return;
        work->running = true;
        auto better = std::make_shared<const Characterized>(
            better_plans(*spec, *first->frontier, *first->plans, work->fraction,
                         [work] { return work->wanted.load(); }));
        on_loop([this, job, work, better] {
          hand_over(job, *work, better->plans, better->json, false);
          if (job->work == work) job->work = nullptr;
        });
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
  for (const auto& [job, revision] : saved) changes.epochs[job->id] = job->claim.epoch;
  for (const StoredEvent& event : changes.events) {
    changes.epochs[event.job] = jobs_.at(event.job)->claim.epoch;
  }
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
      let_go(job);
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
