#include "harpe/training/server/lease_watch.h"

#include <utility>

namespace harpe {

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
        "the database has not been reached for so long that other servers may have the jobs: "
        "nothing is commanded until it is");
  }
  if (!before.held && seen_.held) log_("the database is there: this server commands jobs again");
  return before.held != seen_.held || before.tenure != seen_.tenure;
}

}  // namespace harpe
