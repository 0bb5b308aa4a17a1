#include "harpe/training/server/job_log.h"

#include <cstddef>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/training/store/checks.h"

namespace harpe {
namespace {

constexpr std::size_t kEventsKept = 256;

}  // namespace

void JobLog::add(const HostedPtr& hosted, HostedEffects::Event event) {
  // It may hold names that clients chose. One event that the store refuses would keep everything
  // else from being stored.
  if (!is_storable(event.text)) event.text = in_quotes(event.text, event.text.size());
  const double shown = time_.shown(event.at).value;
  saver_.add_event(hosted, {.at = shown,
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

std::vector<LoggedEvent> JobLog::newest(const Hosted& hosted, std::int64_t after, int limit) {
  std::vector<LoggedEvent> found;
  for (const LoggedEvent& event : hosted.events) {
    if (event.sequence > after && found.size() < static_cast<std::size_t>(limit)) {
      found.push_back(event);
    }
  }
  return found;
}

Result<std::vector<LoggedEvent>> JobLog::read(const std::string& id, std::int64_t after,
                                              int limit) const {
  const Result<std::vector<StoredEvent>> events = store_->events(id, after, limit);
  if (!events.ok()) return store_failure("the log cannot be read now", events.error());
  std::vector<LoggedEvent> found;
  for (const StoredEvent& event : *events) {
    found.push_back({event.sequence, event.at, event.kind, event.text});
  }
  return found;
}

}  // namespace harpe
