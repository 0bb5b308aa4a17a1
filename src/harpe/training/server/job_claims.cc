#include "harpe/training/server/job_claims.h"

#include <algorithm>
#include <utility>

namespace harpe::training {
namespace {

constexpr std::size_t kRemovedAtOnce = 50;

Error moved() {
  return Error::of(ErrorCode::kUnavailable, "the job has moved to another server; try again");
}

Error deleted() {
  return Error::of(ErrorCode::kNotFound, "the job was deleted");
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
        "the database has been unreachable for so long that other servers may have taken over the "
        "jobs: this server commands no job until it is back");
  }
  if (!before.held && seen_.held)
    log_("the database is reachable: this server commands jobs again");
  return before.held != seen_.held || before.tenure != seen_.tenure;
}

Result<std::optional<JobClaim>> JobClaims::claim(const std::string& id) const {
  if (services_.store == nullptr) return std::optional(JobClaim{.epoch = 1});
  return services_.store->claim(id);
}

void JobClaims::release(const std::string& id) {
  if (services_.store == nullptr) return;
  services_.readers.run(id, [this, id] {
    static_cast<void>(services_.store->release(id));
    return [] {};
  });
}

bool JobClaims::commands(const Hosted& hosted) const {
  return !hosted.deleted && !hosted.moved && lease_.covers(hosted.claim) && !is_in_doubt(hosted.id);
}

bool JobClaims::commands(const std::string& id) const {
  const JobClaim* const claim = services_.table.claim_of(id);
  return claim != nullptr && lease_.covers(*claim) && !is_in_doubt(id);
}

bool JobClaims::is_in_doubt(const std::string& id) const {
  if (services_.options.url.empty()) return false;  // there is no other server
  return removals_.is_in_doubt(id, services_.table.find(id).get());
}

void JobClaims::settle_doubts() {
  removals_.settle([this](const std::string& id) {
    if (!services_.table.holds(id)) return true;
    if (is_in_doubt(id)) return false;
    if (const HostedPtr hosted = services_.table.find(id)) {
      hosted->listeners.for_each([](JobListener& listener) { listener.changed(); });
    }
    return true;
  });
}

void JobClaims::watch_lease() {
  settle_doubts();
  if (!lease_.look()) return;
  std::vector<std::string> lost;
  const auto look = [&](const std::string& id, const JobClaim& claim) {
    if (!lease_.has(claim)) lost.push_back(id);
  };
  for (const auto& [id, stored] : services_.table.stored()) look(id, stored.claim);
  for (const auto& [id, hosted] : services_.table.loaded()) look(id, hosted->claim);
  for (const std::string& id : lost) let_go(id);
  const auto all = services_.table.loaded();
  for (const auto& [id, hosted] : all) {
    hosted->listeners.for_each([](JobListener& listener) { listener.changed(); });
  }
}

void JobClaims::let_go(const std::string& id) {
  removals_.forget(id);
  if (const HostedPtr hosted = services_.table.find(id)) {
    services_.log("job " + id + " is released: another server has it, or may have it");
    hosted->moved = true;
    return jobs_.drop(hosted, moved());
  }
  if (services_.table.find_stored(id) == nullptr) return;
  for (const HostedTable::Loaded& one : services_.table.erase_stored(id)) one(moved());
}

void JobClaims::lose(const std::string& id, std::int64_t epoch) {
  const JobClaim* const claim = services_.table.claim_of(id);
  const bool is_lost = claim != nullptr && claim->epoch == epoch;
  if (is_lost && !removals_.are_under_way(id)) let_go(id);
}

// --- Removing -----------------------------------------------------------------------------------

void JobClaims::remove(const std::string& id, const JobRemovals::Done& done) {
  if (removals_.wait(id, done)) return;
  if (!services_.table.holds(id)) return done(false);
  remove_all({id});
  if (!removals_.wait(id, done)) done(true);  // without a store, the job is already removed
}

bool JobClaims::remove_first_ended() {
  const std::vector<std::string> ended = ended_for(Seconds{0});
  if (ended.empty()) return false;
  remove_all({ended.front()});
  return true;
}

void JobClaims::remove_old() {
  if (services_.options.lifetimes.keep_ended <= Seconds{0}) return;
  std::vector<std::string> ended = ended_for(services_.options.lifetimes.keep_ended);
  std::erase_if(ended, [](const std::string& id) { return id.starts_with(kRecurringIds); });
  if (!ended.empty()) {
    services_.log(std::to_string(ended.size()) + " jobs that ended long ago are removed, such as " +
                  ended.front());
  }
  // In groups, so that saves can run between them.
  for (std::size_t i = 0; i < ended.size(); i += kRemovedAtOnce) {
    const auto end =
        ended.begin() + static_cast<std::ptrdiff_t>(std::min(ended.size(), i + kRemovedAtOnce));
    remove_all({ended.begin() + static_cast<std::ptrdiff_t>(i), end});
  }
}

std::vector<std::string> JobClaims::ended_for(Seconds time) const {
  std::vector<std::string> ended = services_.activities.ended_for(time);
  std::erase_if(ended, [this](const std::string& id) { return removals_.are_under_way(id); });
  return ended;
}

void JobClaims::remove_all(const std::vector<std::string>& ids) {
  std::vector<JobSaver::Removal> removals;
  for (const std::string& id : ids) {
    removals_.begin(id);
    removals.push_back({.job = id, .epoch = services_.table.claim_of(id)->epoch});
  }
  services_.saver.remove(std::move(removals), [this, ids](const JobSaver::Removed& removed) {
    for (const std::string& id : ids) {
      finish_removal(id, std::ranges::find(removed.gone, id) != removed.gone.end(), removed.status);
    }
    for (const auto& [id, epoch] : removed.lost) lose(id, epoch);
  });
}

void JobClaims::finish_removal(const std::string& id, bool gone, const Status& status) {
  const HostedPtr hosted = services_.table.find(id);
  if (gone) {
    removals_.forget(id);
    if (hosted != nullptr) {
      hosted->deleted = true;
      jobs_.drop(hosted, deleted());
    } else if (services_.table.find_stored(id) != nullptr) {
      for (const HostedTable::Loaded& one : services_.table.erase_stored(id)) one(HostedPtr());
    }
  } else if (services_.table.holds(id)) {
    if (hosted != nullptr) jobs_.save(hosted);
    removals_.doubt(id, hosted.get());
  }
  const Result<bool> outcome =
      gone ? Result<bool>(true)
           : Result<bool>(store_failure("the job still exists; try again later", status.error()));
  for (const JobRemovals::Done& one : removals_.end(id)) one(outcome);
}

}  // namespace harpe::training
