// Which jobs are in memory, and how they come there and leave it.

#include <algorithm>
#include <utility>

#include "harpe/training/server/hosting.h"

namespace harpe {
namespace {

/// A job that was looked at may be looked at again.
constexpr Seconds kLookedAt{60};
constexpr std::size_t kSummarisedAtOnce = 20;
/// A client may take one of these of the memory for jobs, as of that for requests.
constexpr std::size_t kSharesOfMemory = 2;

Error unreadable(const std::string& id, const Error& why) {
  return Error::of(
      ErrorCode::kUnavailable,
      "job " + id + " is stored, but cannot be read; removing it frees its id: " + why.text());
}

}  // namespace

void Hosting::load(const std::string& id, Loaded done) {
  if (const HostedPtr hosted = find(id)) {
    hosted->used = clock_.now();
    return done(hosted);
  }
  HostedTable::Stored* const stored = table_.find_stored(id);
  if (stored == nullptr) return done(HostedPtr());
  stored->waiting.push_back(std::move(done));
  if (std::exchange(stored->loading, true)) return;
  readers_->run(id, [this, id, claim = stored->claim, at = now()] {
    work_.post([this, id, claim, hosted = restorer_.restore(*store_, id, at)] {
      loaded(id, claim, hosted);
    });
  });
}

void Hosting::loaded(const std::string& id, const JobClaim& claim,
                     const Result<HostedPtr>& hosted) {
  HostedTable::Stored* const stored = table_.find_stored(id);
  // It was removed or let go meanwhile, and may have been changed by another server since.
  if (stored == nullptr || stored->claim != claim) return;
  std::vector<Loaded> waiting = std::exchange(stored->waiting, {});
  stored->loading = false;
  const auto respond = [&](const Result<HostedPtr>& with) {
    for (const Loaded& one : waiting) one(with);
  };
  if (!hosted.ok()) {
    const bool is_away = hosted.error().code == ErrorCode::kUnavailable;
    if (!is_away) log_("job " + id + " cannot be read: " + hosted.error().text());
    return respond(is_away ? hosted : unreadable(id, hosted.error()));
  }
  if (*hosted == nullptr) {  // another server has removed it
    table_.erase_stored(id);
    return respond(HostedPtr());
  }
  if (Status room = make_room((*hosted)->memory()); !room.ok()) return respond(room.error());
  const bool has_summary = !stored->summary.text.empty();
  if (has_summary) (*hosted)->stored_summary = std::move(stored->summary.text);
  (*hosted)->claim = claim;
  ++counts_.loads;
  add(*hosted);
  if (removals_.was_doubted(id)) {
    save(*hosted);
    removals_.doubt(id, hosted->get());
  }
  if (!has_summary) saver_.refresh((*hosted)->summary(), claim.epoch);
  respond(*hosted);
  unload_idle(kMostIdleLoaded);
}

Status Hosting::make_room(std::size_t bytes, const std::string& client) {
  if (count() >= options_.most_jobs) {
    const std::vector<std::string> ended = ended_for(Seconds{0});
    if (ended.empty()) {
      return Error::of(ErrorCode::kUnavailable,
                       "the server holds " + std::to_string(count()) +
                           " jobs, as many as it may (--most-jobs), and none of them has ended");
    }
    remove_all({ended.begin(), ended.begin() + 1});
  }
  return make_memory(bytes, client, nullptr);
}

Status Hosting::make_room_in(Hosted& hosted, std::size_t bytes, const std::string& client) {
  const bool is_of_client = !hosted.client.empty() || client.empty();
  // What is in memory already takes no room: a rank that registers again is never refused for it.
  if (bytes > 0)
    HARPE_TRY(make_memory(bytes, hosted.client.empty() ? client : hosted.client, &hosted));
  if (!is_of_client) table_.charge(hosted, client);
  return ok_status();
}

/// \param hosted  the job whose bytes they are, which stays in memory; null: of a new one
Status Hosting::make_memory(std::size_t bytes, const std::string& client, const Hosted* hosted) {
  const std::size_t share = options_.most_memory / kSharesOfMemory;
  const std::size_t own = hosted == nullptr ? 0 : hosted->memory_counted;
  // Of the client's other jobs: one job alone may be larger than a share.
  const auto others = [&] {
    const bool is_counted = hosted != nullptr && hosted->client == client;
    return table_.memory(client) - (is_counted ? own : 0);
  };
  const auto is_over_share = [&] {
    return !client.empty() && others() > 0 && others() + own + bytes > share;
  };
  const auto is_full = [&] { return memory() + bytes > options_.most_memory; };
  if (is_full() || is_over_share()) unload_idle(0, hosted);
  if (is_over_share()) {
    return Error::of(ErrorCode::kUnavailable,
                     "jobs of " + client + " that train now, and this one, would take " +
                         std::to_string((others() + own + bytes) >> 20) + " MiB, more than the " +
                         std::to_string(share >> 20) +
                         " MiB that one user or address may have, half of --job-memory");
  }
  if (is_full()) {
    return Error::of(ErrorCode::kUnavailable, "the jobs that train now, and this one, would take " +
                                                  std::to_string((memory() + bytes) >> 20) +
                                                  " MiB, more than the " +
                                                  std::to_string(options_.most_memory >> 20) +
                                                  " MiB that they may have (--job-memory)");
  }
  return ok_status();
}

void Hosting::wake(const HostedPtr& hosted) {
  hosted->used = clock_.now();
  if (!hosted->asleep()) return;
  hosted->go_on(now());
  follow(hosted);
}

bool Hosting::is_idle(const Hosted& hosted) const {
  return store_ != nullptr && !removals_.are_under_way(hosted.id) &&
         hosted.saving.waiting.empty() &&
         (hosted.asleep() || activity(hosted) != Activity::kActive) &&
         hosted.listeners.interest() == JobListener::Interest::kNone;
}

/// All but the `most` of them that were used last, which go some time later.
/// \param kept_job  is not unloaded; null: any may be
void Hosting::unload_idle(std::size_t most, const Hosted* kept_job) {
  const Seconds kept = std::min(kLookedAt, options_.lifetimes.idle_after);
  const Instant recent = clock_.now() + kept * -1;
  std::vector<HostedPtr> idle;
  for (const auto& [id, hosted] : table_.loaded()) {
    if (hosted.get() == kept_job || !is_idle(*hosted)) continue;
    if (hosted->touched) save(hosted);  // it leaves when that is stored
    const SaveState& saving = hosted->saving;
    if (saving.revisions.is_stored() && saving.events.empty()) idle.push_back(hosted);
  }
  std::ranges::sort(idle, {}, [](const HostedPtr& hosted) { return hosted->used; });
  for (std::size_t i = 0; i < idle.size(); ++i) {
    if (idle.size() - i > most || idle[i]->used < recent) unload(idle[i]);
  }
}

void Hosting::unload(const HostedPtr& hosted) {
  ++counts_.unloads;
  refresh_summary(*hosted);
  JobSummary summary = hosted->summary();
  hosted->unloaded = true;
  drop(hosted, Error::of(ErrorCode::kUnavailable, "the job has left memory; ask again"));
  table_.add_stored(std::move(summary), hosted->claim);
}

/// A job that is over, which is already said in it.
void Hosting::drop(const HostedPtr& hosted, const Status& why) {
  hosted->leave();
  table_.erase(hosted);
  JobSaver::give_up(*hosted, why);
  hosted->listeners.for_each([](JobListener& listener) { listener.changed(); });
}

void Hosting::refresh_summary(const Hosted& hosted) {
  if (!hosted.asleep()) saver_.refresh(hosted.summary(), hosted.claim.epoch);
}

/// Jobs that an older Harpe has stored have no summary before they are read.
void Hosting::summarise_some() {
  for (std::size_t i = 0; i < kSummarisedAtOnce && !unsummarised_.empty(); ++i) {
    const std::string id = std::move(unsummarised_.back());
    unsummarised_.pop_back();
    load(id, [](const Result<HostedPtr>&) {});
  }
}

}  // namespace harpe
