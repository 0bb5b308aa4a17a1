#include "harpe/training/server/job_log.h"

#include <cstddef>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/training/store/checks.h"

namespace harpe::training {
namespace {

constexpr std::size_t kEventsKept = 256;

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
  // It may hold names that clients chose. One event that the store refuses would keep everything
  // else from being stored.
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
  if (hosted->events.size() > kEventsKept) hosted->events.pop_front();
}

void JobLog::read(const HostedPtr& hosted, std::int64_t after, int limit,
                  std::function<void(Result<std::vector<LoggedEvent>>)> done) {
  if (services_.store == nullptr) return done(newest(*hosted, after, limit));
  services_.readers.run(
      hosted->id, [store = services_.store, id = hosted->id, after, limit, done = std::move(done)] {
        return [done, found = stored(*store, id, after, limit)] { done(found); };
      });
}

}  // namespace harpe::training
