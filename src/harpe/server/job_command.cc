// Which jobs a server may command, and those that it has to let go.

#include <utility>

#include "harpe/server/job_registry.h"

namespace harpe {

bool JobRegistry::commands(const HostedJob& job) const {
  if (job.is_over()) return false;
  if (store_ == nullptr) return true;
  const Lease lease = store_->lease();
  return lease.held && lease.tenure == job.claim.tenure;
}

bool JobRegistry::holds_lease() const {
  return store_ == nullptr || store_->lease().held;
}

void JobRegistry::watch_lease() {
  if (store_ == nullptr) return;
  const Lease before = std::exchange(lease_, store_->lease());
  if (before.held && !lease_.held) {
    log_(
        "the database has not been reached for so long that other servers may have the jobs: "
        "nothing is commanded until it is");
  }
  if (!before.held && lease_.held) log_("the database is there: this server commands jobs again");
  if (before.held == lease_.held && before.tenure == lease_.tenure) return;
  const auto jobs = jobs_;
  for (const auto& [id, job] : jobs) {
    job->claim.tenure == lease_.tenure ? tell_listeners(job) : let_go(job);
  }
}

void JobRegistry::let_go(const JobPtr& job) {
  if (job->is_over()) return;
  log_("job " + job->id + " is let go: another server has it, or may have it");
  job->moved = true;
  drop(job, Error::of(ErrorCode::kUnavailable, "another server has this job now; ask again"));
}

}  // namespace harpe
