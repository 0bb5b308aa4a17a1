// Which jobs a server has and may command, and those that it has to let go.

#include <utility>

#include "harpe/training/server/hosting.h"

namespace harpe {
namespace {

Error moved() {
  return Error::of(ErrorCode::kUnavailable, "another server has this job now; ask again");
}

}  // namespace

Result<std::optional<JobClaim>> Hosting::claim(const std::string& id) const {
  if (store_ == nullptr) return std::optional(JobClaim{.epoch = 1});
  return store_->claim(id);
}

void Hosting::release(const std::string& id) {
  if (store_ == nullptr) return;
  aside(id, [this, id] {
    static_cast<void>(store_->release(id));
    return [] {};
  });
}

bool Hosting::take_up(JobSummary summary, const JobClaim& claim) {
  if (const JobClaim* const before = table_.claim_of(summary.job)) {
    if (*before == claim) return false;
    let_go(summary.job);
  }
  if (summary.text.empty()) unsummarised_.push_back(summary.job);
  table_.add_stored(std::move(summary), claim);
  return true;
}

bool Hosting::commands(const Hosted& hosted) const {
  return !hosted.deleted && !hosted.moved && lease_.covers(hosted.claim) && !is_in_doubt(hosted.id);
}

bool Hosting::commands(const std::string& id) const {
  const JobClaim* const claim = table_.claim_of(id);
  return claim != nullptr && lease_.covers(*claim) && !is_in_doubt(id);
}

bool Hosting::is_in_doubt(const std::string& id) const {
  if (options_.url.empty()) return false;  // there is no other server
  return removals_.is_in_doubt(id, find(id).get());
}

void Hosting::settle_doubts() {
  removals_.settle([this](const std::string& id) {
    if (!holds(id)) return true;
    if (is_in_doubt(id)) return false;
    if (const HostedPtr hosted = find(id)) {
      hosted->listeners.for_each([](JobListener& listener) { listener.changed(); });
    }
    return true;
  });
}

void Hosting::watch_lease() {
  settle_doubts();
  if (!lease_.look()) return;
  std::vector<std::string> lost;
  const auto look = [&](const std::string& id, const JobClaim& claim) {
    if (!lease_.has(claim)) lost.push_back(id);
  };
  for (const auto& [id, stored] : table_.stored()) look(id, stored.claim);
  for (const auto& [id, hosted] : table_.loaded()) look(id, hosted->claim);
  for (const std::string& id : lost) let_go(id);
  const auto all = table_.loaded();
  for (const auto& [id, hosted] : all) {
    hosted->listeners.for_each([](JobListener& listener) { listener.changed(); });
  }
}

/// A job that another server has, or may have.
void Hosting::let_go(const std::string& id) {
  removals_.forget(id);
  if (const HostedPtr hosted = find(id)) {
    log_("job " + id + " is let go: another server has it, or may have it");
    hosted->moved = true;
    return drop(hosted, moved());
  }
  if (table_.find_stored(id) == nullptr) return;
  for (const Loaded& one : table_.erase_stored(id)) one(moved());
}

/// The store refuses what was written by this claim.
void Hosting::lose(const std::string& id, std::int64_t epoch) {
  const JobClaim* const claim = table_.claim_of(id);
  const bool is_lost = claim != nullptr && claim->epoch == epoch;
  if (is_lost && !removals_.are_under_way(id)) let_go(id);
}

}  // namespace harpe
