// Jobs that are removed, because a client asks for it or because they ended long ago.

#include <algorithm>
#include <utility>

#include "harpe/training/server/hosting.h"

namespace harpe {
namespace {

constexpr std::size_t kRemovedAtOnce = 50;

Error deleted() {
  return Error::of(ErrorCode::kNotFound, "the job was deleted");
}

}  // namespace

void Hosting::remove(const std::string& id, const JobRemovals::Done& done) {
  if (removals_.wait(id, done)) return;
  if (!holds(id)) return done(false);
  remove_all({id});
  if (!removals_.wait(id, done)) done(true);  // without a store it is gone already
}

void Hosting::remove_all(const std::vector<std::string>& ids) {
  std::vector<JobSaver::Removal> removals;
  for (const std::string& id : ids) {
    removals_.begin(id);
    removals.push_back({.job = id, .epoch = table_.claim_of(id)->epoch});
  }
  saver_.remove(std::move(removals), [this, ids](const JobSaver::Removed& removed) {
    for (const std::string& id : ids) {
      finish_removal(id, std::ranges::find(removed.gone, id) != removed.gone.end(), removed.status);
    }
    for (const auto& [id, epoch] : removed.lost) lose(id, epoch);
  });
}

void Hosting::finish_removal(const std::string& id, bool gone, const Status& status) {
  const HostedPtr hosted = find(id);
  if (gone) {
    removals_.forget(id);
    if (hosted != nullptr) {
      hosted->deleted = true;
      drop(hosted, deleted());
    } else if (table_.find_stored(id) != nullptr) {
      for (const Loaded& one : table_.erase_stored(id)) one(HostedPtr());
    }
  } else if (holds(id)) {
    if (hosted != nullptr) save(hosted);
    removals_.doubt(id, hosted.get());
  }
  const Result<bool> outcome =
      gone ? Result<bool>(true)
           : Result<bool>(store_failure("the job is still there; ask again later", status.error()));
  for (const JobRemovals::Done& one : removals_.end(id)) one(outcome);
}

/// Ids of jobs that have ended for so long, those that ended first before the others.
std::vector<std::string> Hosting::ended_for(Seconds time) const {
  std::vector<std::pair<Seconds, std::string>> ended;
  const auto look = [&](const std::string& id, Activity activity, Seconds heard,
                        std::optional<Seconds> end) {
    if (activity != Activity::kEnded || removals_.are_under_way(id)) return;
    const Seconds since = std::max(heard, end.value_or(heard));
    if (now() - since >= time) ended.emplace_back(since, id);
  };
  for (const auto& [id, stored] : table_.stored()) {
    const JobSummary& summary = stored.summary;
    if (stored.loading) continue;
    look(id, activity(summary), Seconds{summary.heard},
         summary.ended ? std::optional(Seconds{*summary.ended}) : std::nullopt);
  }
  for (const auto& [id, hosted] : table_.loaded()) {
    if (hosted->listeners.interest() != JobListener::Interest::kNone) continue;
    look(id, activity(*hosted), hosted->heard(), hosted->ended());
  }
  std::ranges::sort(ended);
  std::vector<std::string> ids;
  for (auto& [since, id] : ended) ids.push_back(std::move(id));
  return ids;
}

void Hosting::prune(Seconds age) {
  if (options_.lifetimes.keep_ended > Seconds{0}) {
    std::vector<std::string> ended = ended_for(options_.lifetimes.keep_ended);
    std::erase_if(ended, [](const std::string& id) { return id.starts_with(kRecurringIds); });
    if (!ended.empty()) {
      log_(std::to_string(ended.size()) + " jobs that ended long ago are removed, such as " +
           ended.front());
    }
    // Some at a time: saves come in between.
    for (std::size_t i = 0; i < ended.size(); i += kRemovedAtOnce) {
      const auto end =
          ended.begin() + static_cast<std::ptrdiff_t>(std::min(ended.size(), i + kRemovedAtOnce));
      remove_all({ended.begin() + static_cast<std::ptrdiff_t>(i), end});
    }
  }
  Retention keep{.since = (now() - age).value, .jobs = std::vector<std::string>()};
  for (const auto& [id, hosted] : table_.loaded()) keep.jobs->push_back(id);
  saver_.prune(std::move(keep));
}

}  // namespace harpe
