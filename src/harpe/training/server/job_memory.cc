#include "harpe/training/server/job_memory.h"

#include <algorithm>
#include <utility>

namespace harpe::training {
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

bool JobMemory::take_up(JobSummary summary, const JobClaim& claim) {
  if (const JobClaim* const before = services_.table.claim_of(summary.job)) {
    if (*before == claim) return false;
    claims_.let_go(summary.job);
  }
  if (summary.text.empty()) unsummarised_.push_back(summary.job);
  services_.table.add_stored(std::move(summary), claim);
  return true;
}

void JobMemory::load(const std::string& id, HostedTable::Loaded done) {
  if (const HostedPtr hosted = services_.table.find(id)) {
    hosted->used = services_.clock.now();
    return done(hosted);
  }
  HostedTable::Stored* const stored = services_.table.find_stored(id);
  if (stored == nullptr) return done(HostedPtr());
  stored->waiting.push_back(std::move(done));
  if (std::exchange(stored->loading, true)) return;
  services_.readers.run(id, [this, id, claim = stored->claim, at = services_.time.now()] {
    return [this, id, claim, hosted = restorer_.restore(*services_.store, id, at)] {
      loaded(id, claim, hosted);
    };
  });
}

void JobMemory::loaded(const std::string& id, const JobClaim& claim,
                       const Result<HostedPtr>& hosted) {
  HostedTable::Stored* const stored = services_.table.find_stored(id);
  // It was removed or let go meanwhile, and may have been changed by another server since.
  if (stored == nullptr || stored->claim != claim) return;
  std::vector<HostedTable::Loaded> waiting = std::exchange(stored->waiting, {});
  stored->loading = false;
  const auto respond = [&](const Result<HostedPtr>& with) {
    for (const HostedTable::Loaded& one : waiting) one(with);
  };
  if (!hosted.ok()) {
    const bool is_away = hosted.error().code == ErrorCode::kUnavailable;
    if (!is_away) services_.log("job " + id + " cannot be read: " + hosted.error().text());
    return respond(is_away ? hosted : unreadable(id, hosted.error()));
  }
  if (*hosted == nullptr) {  // another server has removed it
    services_.table.erase_stored(id);
    return respond(HostedPtr());
  }
  if (Status room = make_room((*hosted)->memory()); !room.ok()) return respond(room.error());
  const bool has_summary = !stored->summary.text.empty();
  if (has_summary) (*hosted)->stored_summary = std::move(stored->summary.text);
  (*hosted)->claim = claim;
  ++counts_.loads;
  jobs_.add(*hosted);
  if (claims_.removals().was_doubted(id)) {
    jobs_.save(*hosted);
    claims_.removals().doubt(id, hosted->get());
  }
  if (!has_summary) services_.saver.refresh((*hosted)->summary(), claim.epoch);
  respond(*hosted);
  unload_idle();
}

Status JobMemory::make_room(std::size_t bytes, const std::string& client) {
  if (services_.table.count() >= services_.options.most_jobs && !claims_.remove_first_ended()) {
    return Error::of(ErrorCode::kUnavailable,
                     "the server holds " + std::to_string(services_.table.count()) +
                         " jobs, as many as it may (--most-jobs), and none of them has ended");
  }
  return make_memory(bytes, client, nullptr);
}

Status JobMemory::make_room_in(Hosted& hosted, std::size_t bytes, const std::string& client) {
  const bool is_of_client = !hosted.client.empty() || client.empty();
  // What is in memory already takes no room: a rank that registers again is never refused for it.
  if (bytes > 0)
    HARPE_TRY(make_memory(bytes, hosted.client.empty() ? client : hosted.client, &hosted));
  if (!is_of_client) services_.table.charge(hosted, client);
  return ok_status();
}

/// \param hosted  the job whose bytes they are, which stays in memory; null: of a new one
Status JobMemory::make_memory(std::size_t bytes, const std::string& client, const Hosted* hosted) {
  const std::size_t share = services_.options.most_memory / kSharesOfMemory;
  const std::size_t own = hosted == nullptr ? 0 : hosted->memory_counted;
  // Of the client's other jobs: one job alone may be larger than a share.
  const auto others = [&] {
    const bool is_counted = hosted != nullptr && hosted->client == client;
    return services_.table.memory(client) - (is_counted ? own : 0);
  };
  const auto is_over_share = [&] {
    return !client.empty() && others() > 0 && others() + own + bytes > share;
  };
  const auto is_full = [&] {
    return services_.table.memory() + bytes > services_.options.most_memory;
  };
  if (is_full() || is_over_share()) unload_idle(0, hosted);
  if (is_over_share()) {
    return Error::of(ErrorCode::kUnavailable,
                     "jobs of " + client + " that train now, and this one, would take " +
                         std::to_string((others() + own + bytes) >> 20) + " MiB, more than the " +
                         std::to_string(share >> 20) +
                         " MiB that one user or address may have, half of --job-memory");
  }
  if (is_full()) {
    return Error::of(ErrorCode::kUnavailable,
                     "the jobs that train now, and this one, would take " +
                         std::to_string((services_.table.memory() + bytes) >> 20) +
                         " MiB, more than the " +
                         std::to_string(services_.options.most_memory >> 20) +
                         " MiB that they may have (--job-memory)");
  }
  return ok_status();
}

bool JobMemory::is_idle(const Hosted& hosted) const {
  return services_.store != nullptr && !claims_.removals().are_under_way(hosted.id) &&
         hosted.saving.waiting.empty() &&
         (hosted.asleep() || services_.activities.of(hosted) != Activity::kActive) &&
         hosted.listeners.interest() == JobListener::Interest::kNone;
}

void JobMemory::unload_idle(std::size_t most, const Hosted* kept_job) {
  const Seconds kept = std::min(kLookedAt, services_.options.lifetimes.idle_after);
  const Instant recent = services_.clock.now() + kept * -1;
  std::vector<HostedPtr> idle;
  for (const auto& [id, hosted] : services_.table.loaded()) {
    if (hosted.get() == kept_job || !is_idle(*hosted)) continue;
    if (hosted->touched) jobs_.save(hosted);  // it leaves when that is stored
    const SaveState& saving = hosted->saving;
    if (saving.revisions.is_stored() && saving.events.empty()) idle.push_back(hosted);
  }
  std::ranges::sort(idle, {}, [](const HostedPtr& hosted) { return hosted->used; });
  for (std::size_t i = 0; i < idle.size(); ++i) {
    if (idle.size() - i > most || idle[i]->used < recent) unload(idle[i]);
  }
}

void JobMemory::unload(const HostedPtr& hosted) {
  ++counts_.unloads;
  jobs_.refresh_summary(*hosted);
  JobSummary summary = hosted->summary();
  hosted->unloaded = true;
  jobs_.drop(hosted, Error::of(ErrorCode::kUnavailable, "the job has left memory; ask again"));
  services_.table.add_stored(std::move(summary), hosted->claim);
}

void JobMemory::summarise_some() {
  for (std::size_t i = 0; i < kSummarisedAtOnce && !unsummarised_.empty(); ++i) {
    const std::string id = std::move(unsummarised_.back());
    unsummarised_.pop_back();
    load(id, [](const Result<HostedPtr>&) {});
  }
}

}  // namespace harpe::training
