// Which jobs a server has and may command, and those that it has to let go.

#include <utility>

#include "harpe/server/job_registry.h"

namespace harpe {
namespace {

Error moved() {
  return Error::of(ErrorCode::kUnavailable, "another server has this job now; ask again");
}

}  // namespace

bool JobRegistry::take_up(JobSummary summary, const JobClaim& claim) {
  if (const JobClaim* const before = claim_of(summary.job)) {
    if (*before == claim) return false;
    let_go(summary.job);
  }
  if (summary.text.empty()) unsummarised_.push_back(summary.job);
  std::string id = summary.job;
  stored_.emplace(std::move(id), Stored{.summary = std::move(summary), .claim = claim});
  return true;
}

const JobClaim* JobRegistry::claim_of(const std::string& id) const {
  if (const auto job = jobs_.find(id); job != jobs_.end()) return &job->second->claim;
  const auto stored = stored_.find(id);
  return stored == stored_.end() ? nullptr : &stored->second.claim;
}

bool JobRegistry::commands(const JobClaim& claim) const {
  if (store_ == nullptr) return true;
  const LeaseState lease = store_->lease();
  return lease.held && lease.tenure == claim.tenure;
}

bool JobRegistry::commands(const HostedJob& job) const {
  return !job.deleted && !job.moved && commands(job.claim) && !is_in_doubt(job.id);
}

bool JobRegistry::commands(const std::string& id) const {
  const JobClaim* const claim = claim_of(id);
  return claim != nullptr && commands(*claim) && !is_in_doubt(id);
}

/// It is being removed, or was to be and the store did not say whether it is: another server may
/// have registered it again by now. What the store takes by this claim settles it.
bool JobRegistry::is_in_doubt(const std::string& id) const {
  if (options_.url.empty()) return false;  // there is no other
  if (removals_.contains(id)) return true;
  const auto doubted = doubted_.find(id);
  if (doubted == doubted_.end()) return false;
  const auto job = jobs_.find(id);
  return job == jobs_.end() || job->second->saving.revisions.stored() < doubted->second;
}

void JobRegistry::forget_doubts() {
  std::erase_if(doubted_, [this](const auto& doubted) {
    if (claim_of(doubted.first) == nullptr) return true;
    if (is_in_doubt(doubted.first)) return false;
    find(doubted.first)->listeners.for_each([](JobListener& listener) { listener.changed(); });
    return true;
  });
}

bool JobRegistry::holds_lease() const {
  return store_ == nullptr || store_->lease().held;
}

void JobRegistry::watch_lease() {
  if (store_ == nullptr) return;
  forget_doubts();
  const LeaseState before = std::exchange(lease_, store_->lease());
  if (before.held && !lease_.held) {
    log_(
        "the database has not been reached for so long that other servers may have the jobs: "
        "nothing is commanded until it is");
  }
  if (!before.held && lease_.held) log_("the database is there: this server commands jobs again");
  if (before.held == lease_.held && before.tenure == lease_.tenure) return;
  std::vector<std::string> lost;
  const auto look = [&](const std::string& id, const JobClaim& claim) {
    if (claim.tenure != lease_.tenure) lost.push_back(id);
  };
  for (const auto& [id, stored] : stored_) look(id, stored.claim);
  for (const auto& [id, job] : jobs_) look(id, job->claim);
  for (const std::string& id : lost) let_go(id);
  const auto jobs = jobs_;
  for (const auto& [id, job] : jobs) {
    job->listeners.for_each([](JobListener& listener) { listener.changed(); });
  }
}

/// A job that another server has, or may have.
void JobRegistry::let_go(const std::string& id) {
  if (const JobPtr job = find(id)) {
    log_("job " + id + " is let go: another server has it, or may have it");
    job->moved = true;
    return drop(job, moved());
  }
  const auto stored = stored_.find(id);
  if (stored == stored_.end()) return;
  const std::vector<Loaded> waiting = std::exchange(stored->second.waiting, {});
  stored_.erase(stored);
  for (const Loaded& one : waiting) one(moved());
}

/// The store refuses what was written by this claim.
void JobRegistry::lose(const std::string& id, std::int64_t epoch) {
  const JobClaim* const claim = claim_of(id);
  if (claim != nullptr && claim->epoch == epoch && !removals_.contains(id)) let_go(id);
}

}  // namespace harpe
