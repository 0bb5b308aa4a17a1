// What happens to a job, and what follows from it.

#include <algorithm>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/server/job_registry.h"
#include "harpe/server/job_summary.h"
#include "harpe/store/checks.h"

namespace harpe {
namespace {

constexpr std::size_t kEventsKept = 256;
constexpr Seconds kRefreshSummaries{60};

}  // namespace

void JobRegistry::tell(const JobPtr& job, std::string kind, std::string text, Seconds at) {
  // It may hold names that clients chose. One event that the store refuses would keep everything
  // else from being stored.
  if (!is_storable(text)) text = in_quotes(text, text.size());
  const double shown = time_.shown(at).value;
  saver_.add_event(
      job, {.at = shown, .job = job->id, .kind = kind, .text = text, .stored_at = at.value});
  job->events.push_back({.sequence = ++job->newest_event,
                         .at = shown,
                         .kind = std::move(kind),
                         .text = std::move(text)});
  if (job->events.size() > kEventsKept) job->events.pop_front();
}

void JobRegistry::save(const JobPtr& job) {
  job->touched = false;
  saver_.changed(job);
}

void JobRegistry::follow(const JobPtr& job) {
  if (job->specification != job->job.specification()) measure(job);
  JobEffects effects = job->job.take_effects();
  bool news = false;
  for (const JobEvent& event : effects.events) {
    const bool is_warning = event.level == JobEvent::Level::kWarning;
    if (is_warning) log_("job " + job->id + ": " + event.text);
    tell(job, is_warning ? "warning" : "info", event.text, event.at);
    news = true;
  }
  if (job->job.phase() != job->told_phase) {
    job->told_phase = job->job.phase();
    tell(job, "phase", name_of(job->told_phase), now());
    news = true;
  }
  if (effects.characterize) planner_.plan(job);
  for (CharacterizeRequest& request : effects.more_plans)
    planner_.plan_beside(job, std::move(request));
  if (job->job.ended()) planner_.cancel(job);
  if (effects.assignments) {
    ++counts_.plan_changes;
    job->assignments_at = clock_.now();
  }
  if (effects.save || effects.plans) save(job);
  if (!news && !effects.assignments) return;
  job->listeners.for_each([](JobListener& listener) { listener.changed(); });
}

void JobRegistry::deliver(const JobPtr& job, std::uint64_t ticket, const Result<PlanTable>& plans,
                          const std::string& json, bool better_follow) {
  if (job->is_over() || job->job.ended()) return;
  act(job, [&](Job& one, Seconds at) {
    const PlanTable* before = one.plans();
    one.characterized(ticket, plans, at, better_follow);
    if (one.plans() != before) job->unsaved_plans = json;
    return true;
  });
}

void JobRegistry::count_delivery(const HostedJob& job) {
  const double seconds = (clock_.now() - job.assignments_at).value;
  ++counts_.deliveries;
  counts_.delivery_seconds += seconds;
  counts_.slowest_delivery = std::max(counts_.slowest_delivery, seconds);
}

void JobRegistry::tick(const JobPtr& job) {
  if (job->listeners.interest() == JobListener::Interest::kRank) job->job.hear(now());
  if (!job->job.asleep() && activity(*job) == Activity::kActive) {
    job->job.tick(now());
    follow(job);
  } else {
    planner_.cancel_search(job);
  }
  job->listeners.for_each([](JobListener& listener) { listener.ticked(); });
}

void JobRegistry::tick() {
  const auto jobs = jobs_;  // a tick may end one
  for (const auto& [id, job] : jobs) tick(job);
  unload_idle(kMostIdleLoaded);
  if (clock_.now() - refreshed_ >= kRefreshSummaries) {
    refreshed_ = clock_.now();
    for (const auto& [id, job] : jobs_) refresh_summary(*job);
  }
  summarise_some();
  saver_.tick();
}

void JobRegistry::log_of(const JobPtr& job, std::int64_t after, int limit,
                         std::function<void(Result<std::vector<LoggedEvent>>)> done) {
  if (store_ == nullptr) {
    std::vector<LoggedEvent> found;
    for (const LoggedEvent& event : job->events) {
      if (event.sequence > after && found.size() < static_cast<std::size_t>(limit)) {
        found.push_back(event);
      }
    }
    return done(std::move(found));
  }
  aside(job->id, [this, id = job->id, after, limit, done = std::move(done)] {
    const Result<std::vector<StoredEvent>> events = store_->events(id, after, limit);
    Result<std::vector<LoggedEvent>> found = std::vector<LoggedEvent>();
    if (!events.ok()) {
      found = store_failure("the log cannot be read now", events.error());
    } else {
      for (const StoredEvent& event : *events) {
        found->push_back({event.sequence, event.at, event.kind, event.text});
      }
    }
    return [done, found = std::move(found)] { done(found); };
  });
}

void JobRegistry::verify_store() {
  if (store_ == nullptr) return;
  verifier_->run({}, [this] {
    const Status whole = store_->verify();
    if (whole.ok()) return;
    work_.post([this, why = whole.error().text()] {
      damage_ = why;
      log_("the store is damaged: " + why);
    });
  });
}

void JobRegistry::aside(const std::string& job, std::function<std::function<void()>()> work) {
  readers_->run(job, [this, work = std::move(work)] { work_.post(work()); });
}

}  // namespace harpe
