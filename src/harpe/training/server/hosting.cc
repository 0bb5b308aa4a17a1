#include "harpe/training/server/hosting.h"

#include <algorithm>
#include <utility>

namespace harpe {
namespace {

constexpr Seconds kRefreshSummaries{60};

std::optional<ClockMark> kept_clock(Store* store,
                                    const std::function<void(const std::string&)>& log) {
  if (store == nullptr) return std::nullopt;
  const Result<std::optional<ClockMark>> kept = store->clock();
  if (kept.ok()) return *kept;
  log("the store's clock cannot be read, so it begins anew: " + kept.error().text());
  return std::nullopt;
}

}  // namespace

LeaseWatch::LeaseWatch(Store* store, std::function<void(const std::string&)> log)
    : store_(store),
      log_(std::move(log)),
      seen_(store == nullptr ? LeaseState() : store->lease()) {}

bool LeaseWatch::covers(const JobClaim& claim) const {
  if (store_ == nullptr) return true;
  const LeaseState lease = store_->lease();
  return lease.held && lease.tenure == claim.tenure;
}

bool LeaseWatch::look() {
  if (store_ == nullptr) return false;
  const LeaseState before = std::exchange(seen_, store_->lease());
  if (before.held && !seen_.held) {
    log_(
        "the database has not been reached for so long that other servers may have the jobs: "
        "nothing is commanded until it is");
  }
  if (!before.held && seen_.held) log_("the database is there: this server commands jobs again");
  return before.held != seen_.held || before.tenure != seen_.tenure;
}

StoreVerifier::StoreVerifier(Loop& loop, Store* store, std::function<void(const std::string&)> log,
                             const MakeWorkers& make_workers)
    : store_(store),
      log_(std::move(log)),
      work_(loop),
      worker_(make_workers({.threads = 1, .nice = 10})) {}

void StoreVerifier::verify() {
  if (store_ == nullptr) return;
  worker_->run({}, [this] {
    const Status whole = store_->verify();
    if (whole.ok()) return;
    work_.post([this, why = whole.error().text()] {
      damage_ = why;
      log_("the store is damaged: " + why);
    });
  });
}

Hosting::Hosting(Loop& loop, Clock& clock, Store* store, Options options,
                 std::function<void(const std::string&)> log)
    : clock_(clock),
      store_(store),
      options_(std::move(options)),
      log_(std::move(log)),
      time_(options_.clocks, kept_clock(store, log_)),
      lease_(store, log_),
      refreshed_(clock.now()),
      work_(loop),
      saver_({.loop = loop,
              .clock = clock,
              .time = time_,
              .store = store,
              .log = log_,
              .make_workers = options_.make_workers,
              .lost = [this](const std::string& id, std::int64_t epoch) { lose(id, epoch); }}),
      job_log_(store, saver_, time_),
      verifier_(loop, store, log_, options_.make_workers),
      readers_(options_.make_workers({.threads = 3, .for_small = 1})) {}

Hosting::~Hosting() {
  for (const auto& [id, hosted] : table_.loaded()) {
    if (hosted->touched || !hosted->saving.revisions.is_stored()) save(hosted);
    refresh_summary(*hosted);
  }
}

Status Hosting::restore() {
  if (store_ == nullptr) return ok_status();
  std::vector<JobSummary> summaries = HARPE_TRY(store_->summaries());
  for (JobSummary& summary : summaries) {
    const std::optional<JobClaim> claim = HARPE_TRY(store_->claim(summary.job));
    if (claim) {
      take_up(std::move(summary), *claim);
    } else {
      log_("job " + summary.job + " is another server's");
    }
  }
  return ok_status();
}

void Hosting::add(const HostedPtr& hosted) {
  hosted->used = clock_.now();
  table_.add(hosted);
  follow(hosted);
}

// --- Lists --------------------------------------------------------------------------------------

std::optional<std::string> Hosting::list(const std::string& after, std::size_t limit,
                                         const std::set<Activity>& activities,
                                         const std::function<bool(const std::string&)>& wanted,
                                         const std::function<void(const Listed&)>& show) const {
  std::optional<std::string> next;
  std::size_t count = 0;
  std::string last;
  table_.visit(after, [&](const std::string& id, const HostedPtr& hosted,
                          const HostedTable::Stored* stored) {
    const Activity now_is = hosted != nullptr ? activity(*hosted) : activity(stored->summary);
    if ((wanted && !wanted(id)) || !activities.contains(now_is)) return true;
    if (count == limit) {
      next = last;
      return false;
    }
    if (hosted != nullptr) {
      show({.summary = hosted->summary(), .activity = now_is, .hosted = hosted.get()});
    } else {
      show({.summary = stored->summary, .activity = now_is, .hosted = nullptr});
    }
    ++count;
    last = id;
    return true;
  });
  return next;
}

Activity Hosting::activity(const Hosted& hosted) const {
  return activity_of(hosted.heard(), hosted.ended(), now(), options_.lifetimes);
}

Activity Hosting::activity(const JobSummary& summary) const {
  const std::optional<Seconds> ended =
      summary.ended ? std::optional(Seconds{*summary.ended}) : std::nullopt;
  return activity_of(Seconds{summary.heard}, ended, now(), options_.lifetimes);
}

std::map<Activity, std::size_t> Hosting::activities() const {
  std::map<Activity, std::size_t> counts{
      {Activity::kActive, 0}, {Activity::kIdle, 0}, {Activity::kEnded, 0}};
  for (const auto& [id, hosted] : table_.loaded()) ++counts[activity(*hosted)];
  for (const auto& [id, stored] : table_.stored()) ++counts[activity(stored.summary)];
  return counts;
}

// --- What happens to a job, and what follows from it --------------------------------------------

void Hosting::save(const HostedPtr& hosted) {
  hosted->touched = false;
  saver_.changed(hosted);
}

void Hosting::follow(const HostedPtr& hosted) {
  table_.measure(*hosted);
  HostedEffects effects = hosted->take_effects(now());
  const bool is_news = effects.changed || !effects.events.empty();
  for (HostedEffects::Event& one : effects.events) {
    if (one.kind == "warning") log_("job " + hosted->id + ": " + one.text);
    job_log_.add(hosted, std::move(one));
  }
  if (effects.save) save(hosted);
  if (is_news) hosted->listeners.for_each([](JobListener& listener) { listener.changed(); });
}

void Hosting::tick(const HostedPtr& hosted) {
  if (hosted->listeners.interest() == JobListener::Interest::kTakesPart) hosted->hear(now());
  if (!hosted->asleep() && activity(*hosted) == Activity::kActive) {
    hosted->tick(now());
    follow(hosted);
  } else {
    hosted->rest();
  }
  hosted->listeners.for_each([](JobListener& listener) { listener.ticked(); });
}

void Hosting::tick() {
  const auto all = table_.loaded();  // a tick may end one
  for (const auto& [id, hosted] : all) tick(hosted);
  unload_idle(kMostIdleLoaded);
  if (clock_.now() - refreshed_ >= kRefreshSummaries) {
    refreshed_ = clock_.now();
    for (const auto& [id, hosted] : table_.loaded()) refresh_summary(*hosted);
  }
  summarise_some();
  saver_.tick();
}

void Hosting::log_of(const HostedPtr& hosted, std::int64_t after, int limit,
                     std::function<void(Result<std::vector<LoggedEvent>>)> done) {
  if (job_log_.is_in_memory()) return done(JobLog::newest(*hosted, after, limit));
  aside(hosted->id, [this, id = hosted->id, after, limit, done = std::move(done)] {
    return [done, found = job_log_.read(id, after, limit)] { done(found); };
  });
}

void Hosting::aside(const std::string& job, std::function<std::function<void()>()> work,
                    Workers::Size size) {
  readers_->run(job, [this, work = std::move(work)] { work_.post(work()); }, size);
}

}  // namespace harpe
