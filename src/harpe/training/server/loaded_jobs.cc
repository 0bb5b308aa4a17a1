#include "harpe/training/server/loaded_jobs.h"

#include <cstddef>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/training/store/checks.h"

namespace harpe::training {
namespace {

constexpr std::size_t kEventsInMemory = 256;

std::vector<LoggedEvent> newest(const Hosted& hosted, std::int64_t after, int limit) {
  std::vector<LoggedEvent> found;
  for (const LoggedEvent& event : hosted.events) {
    if (event.sequence > after && found.size() < static_cast<std::size_t>(limit)) {
      found.push_back(event);
    }
  }
  return found;
}

Result<std::vector<LoggedEvent>> stored(Store& store, const std::string& id, std::int64_t after,
                                        int limit) {
  const Result<std::vector<StoredEvent>> events = store.events(id, after, limit);
  if (!events.ok()) return store_failure("the log cannot be read now", events.error());
  std::vector<LoggedEvent> found;
  for (const StoredEvent& event : *events) {
    found.push_back({event.sequence, event.at, event.kind, event.text});
  }
  return found;
}

}  // namespace

void JobLog::add(const HostedPtr& hosted, HostedEffects::Event event) {
  // The text may include names from clients. The store must not refuse it: that would block all
  // other saves.
  if (!is_storable(event.text)) event.text = in_quotes(event.text, event.text.size());
  const double shown = services_.time.shown(event.at).value;
  services_.saver.add_event(hosted, {.at = shown,
                                     .job = hosted->id,
                                     .kind = event.kind,
                                     .text = event.text,
                                     .stored_at = event.at.value});
  hosted->events.push_back({.sequence = ++hosted->newest_event,
                            .at = shown,
                            .kind = std::move(event.kind),
                            .text = std::move(event.text)});
  if (hosted->events.size() > kEventsInMemory) hosted->events.pop_front();
}

void JobLog::read(const HostedPtr& hosted, std::int64_t after, int limit,
                  std::function<void(Result<std::vector<LoggedEvent>>)> done) {
  if (services_.store == nullptr) return done(newest(*hosted, after, limit));
  services_.readers.run(
      hosted->id, [store = services_.store, id = hosted->id, after, limit, done = std::move(done)] {
        return [done, found = stored(*store, id, after, limit)] { done(found); };
      });
}

void LoadedJobs::add(const HostedPtr& hosted) {
  hosted->used = services_.clock.now();
  services_.table.add(hosted);
  follow(hosted);
}

void LoadedJobs::wake(const HostedPtr& hosted) {
  hosted->used = services_.clock.now();
  if (!hosted->asleep()) return;
  hosted->go_on(services_.time.now());
  follow(hosted);
}

void LoadedJobs::save(const HostedPtr& hosted) {
  hosted->touched = false;
  services_.saver.changed(hosted);
}

void LoadedJobs::refresh_summary(const Hosted& hosted) {
  if (!hosted.asleep()) services_.saver.refresh(hosted.summary(), hosted.claim.epoch);
}

void LoadedJobs::drop(const HostedPtr& hosted, const Status& why) {
  hosted->leave();
  services_.table.erase(hosted);
  JobSaver::give_up(*hosted, why);
  hosted->listeners.for_each([](JobListener& listener) { listener.changed(); });
}

void LoadedJobs::follow(const HostedPtr& hosted) {
  services_.table.measure(*hosted);
  HostedEffects effects = hosted->take_effects(services_.time.now());
  const bool is_news = effects.changed || !effects.events.empty();
  for (HostedEffects::Event& one : effects.events) {
    if (one.kind == "warning") services_.log("job " + hosted->id + ": " + one.text);
    job_log_.add(hosted, std::move(one));
  }
  if (effects.save) save(hosted);
  if (is_news) hosted->listeners.for_each([](JobListener& listener) { listener.changed(); });
}

void LoadedJobs::tick() {
  const auto all = services_.table.loaded();  // a copy, because a tick may end a job
  for (const auto& [id, hosted] : all) tick(hosted);
}

void LoadedJobs::tick(const HostedPtr& hosted) {
  if (hosted->listeners.interest() == JobListener::Interest::kTakesPart)
    hosted->hear(services_.time.now());
  if (!hosted->asleep() && services_.activities.of(*hosted) == Activity::kActive) {
    hosted->tick(services_.time.now());
    follow(hosted);
  } else {
    hosted->rest();
  }
  hosted->listeners.for_each([](JobListener& listener) { listener.ticked(); });
}

}  // namespace harpe::training
