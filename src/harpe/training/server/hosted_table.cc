#include "harpe/training/server/hosted_table.h"

#include <algorithm>
#include <array>
#include <utility>

namespace harpe::training {
const char* name_of(Activity activity) {
  constexpr std::array kNames = {"active", "idle", "ended"};
  return kNames.at(static_cast<std::size_t>(activity));
}

Activity activity_of(Seconds heard, std::optional<Seconds> ended, Seconds now,
                     const JobLifetimes& lifetimes) {
  if (ended || now - heard >= lifetimes.end_after) return Activity::kEnded;
  return now - heard >= lifetimes.idle_after ? Activity::kIdle : Activity::kActive;
}

HostedPtr HostedTable::find(const std::string& id) const {
  const auto found = loaded_.find(id);
  return found == loaded_.end() ? nullptr : found->second;
}

HostedTable::Stored* HostedTable::find_stored(const std::string& id) {
  const auto found = stored_.find(id);
  return found == stored_.end() ? nullptr : &found->second;
}

const JobClaim* HostedTable::claim_of(const std::string& id) const {
  if (const auto loaded = loaded_.find(id); loaded != loaded_.end()) return &loaded->second->claim;
  const auto stored = stored_.find(id);
  return stored == stored_.end() ? nullptr : &stored->second.claim;
}

void HostedTable::add(const HostedPtr& hosted) {
  stored_.erase(hosted->id);
  loaded_.insert_or_assign(hosted->id, hosted);
  measure(*hosted);
}

void HostedTable::add_stored(JobSummary summary, const JobClaim& claim) {
  std::string id = summary.job;
  stored_.insert_or_assign(std::move(id), Stored{.summary = std::move(summary), .claim = claim});
}

void HostedTable::erase(const HostedPtr& hosted) {
  count(*hosted, 0);
  loaded_.erase(hosted->id);
}

void HostedTable::count(Hosted& hosted, std::size_t memory) {
  const std::size_t more = memory - std::exchange(hosted.memory_counted, memory);
  memory_ += more;
  const auto of_client = memory_of_.try_emplace(hosted.client).first;
  of_client->second += more;
  if (of_client->second == 0) memory_of_.erase(of_client);
}

void HostedTable::charge(Hosted& hosted, const std::string& client) {
  const std::size_t memory = hosted.memory_counted;
  count(hosted, 0);
  hosted.client = client;
  count(hosted, memory);
}

std::size_t HostedTable::memory(const std::string& client) const {
  const auto found = memory_of_.find(client);
  return found == memory_of_.end() ? 0 : found->second;
}

void HostedTable::visit(
    const std::string& after,
    const std::function<bool(const std::string&, const HostedPtr&, const Stored*)>& visit) const {
  auto loaded = loaded_.upper_bound(after);
  auto stored = stored_.upper_bound(after);
  for (bool goes_on = true; goes_on && (loaded != loaded_.end() || stored != stored_.end());) {
    const bool is_loaded =
        stored == stored_.end() || (loaded != loaded_.end() && loaded->first < stored->first);
    if (is_loaded) {
      goes_on = visit(loaded->first, loaded->second, nullptr);
      ++loaded;
    } else {
      goes_on = visit(stored->first, nullptr, &stored->second);
      ++stored;
    }
  }
}

Activity JobActivities::of(const Hosted& hosted) const {
  return activity_of(hosted.heard(), hosted.ended(), time_.now(), lifetimes_);
}

Activity JobActivities::of(const JobSummary& summary) const {
  const std::optional<Seconds> ended =
      summary.ended ? std::optional(Seconds{*summary.ended}) : std::nullopt;
  return activity_of(Seconds{summary.heard}, ended, time_.now(), lifetimes_);
}

std::map<Activity, std::size_t> JobActivities::count() const {
  std::map<Activity, std::size_t> counts{
      {Activity::kActive, 0}, {Activity::kIdle, 0}, {Activity::kEnded, 0}};
  for (const auto& [id, hosted] : table_.loaded()) ++counts[of(*hosted)];
  for (const auto& [id, stored] : table_.stored()) ++counts[of(stored.summary)];
  return counts;
}

std::vector<std::string> JobActivities::ended_for(Seconds time) const {
  std::vector<std::pair<Seconds, std::string>> ended;
  const auto look = [&](const std::string& id, Activity activity, Seconds heard,
                        std::optional<Seconds> end) {
    if (activity != Activity::kEnded) return;
    const Seconds since = std::max(heard, end.value_or(heard));
    if (time_.now() - since >= time) ended.emplace_back(since, id);
  };
  for (const auto& [id, stored] : table_.stored()) {
    const JobSummary& summary = stored.summary;
    if (stored.loading) continue;
    look(id, of(summary), Seconds{summary.heard},
         summary.ended ? std::optional(Seconds{*summary.ended}) : std::nullopt);
  }
  for (const auto& [id, hosted] : table_.loaded()) {
    if (hosted->listeners.interest() != JobListener::Interest::kNone) continue;
    look(id, of(*hosted), hosted->heard(), hosted->ended());
  }
  std::ranges::sort(ended);
  std::vector<std::string> ids;
  for (auto& [since, id] : ended) ids.push_back(std::move(id));
  return ids;
}

std::optional<std::string> JobActivities::list(
    const std::string& after, std::size_t limit, const std::set<Activity>& activities,
    const std::function<bool(const std::string&)>& wanted,
    const std::function<void(const Listed&)>& show) const {
  std::optional<std::string> next;
  std::size_t count = 0;
  std::string last;
  table_.visit(after, [&](const std::string& id, const HostedPtr& hosted,
                          const HostedTable::Stored* stored) {
    const Activity now_is = hosted != nullptr ? of(*hosted) : of(stored->summary);
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

}  // namespace harpe::training
