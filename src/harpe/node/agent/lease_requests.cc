// What clients ask of leases: the controller's part, which does what the state machine says.

#include <algorithm>
#include <utility>

#include "harpe/node/agent/node_controller.h"

namespace harpe {

Lease NodeController::view(const LeaseEntry& lease) const {
  Lease view;
  view.id = lease.id;
  view.gpus = lease.gpus;
  view.uid = lease.holder.uid;
  view.pid = lease.holder.pid;
  view.name = lease.name;
  view.expires_in = lease.expires - clock_.now();
  view.controls = lease.controls;
  return view;
}

// --- Effects.

void NodeController::restore(const LeaseEntry& lease, const Done<std::monostate>& done) {
  struct Ending {
    Ending(std::size_t gpus, Done<std::monostate> when_done)
        : left(gpus), done(std::move(when_done)) {}
    Mutex mutex;
    std::size_t left HARPE_GUARDED_BY(mutex);
    Diagnostics diagnostics HARPE_GUARDED_BY(mutex);
    const Done<std::monostate> done;
  };
  const auto ending = std::make_shared<Ending>(lease.gpus.size(), done);
  const auto one_done = [ending](const Status& status) {
    std::vector<Diagnostic> diagnostics;
    {
      const MutexLock lock(ending->mutex);
      if (!status.ok()) ending->diagnostics.add(status.error().text());
      if (--ending->left != 0) return;
      diagnostics = ending->diagnostics.take();
    }
    if (!ending->done) return;
    if (diagnostics.empty()) return ending->done(ok_status());
    ending->done(Error{ErrorCode::kUnavailable, std::move(diagnostics)});
  };
  for (const int gpu : lease.gpus) {
    owners_[static_cast<std::size_t>(gpu)]->end_lease(leases_->holder(lease, gpu), one_done);
  }
}

Status NodeController::perform(const Done<std::monostate>& done) {
  LeaseEffects effects = leases_->take_effects();
  for (const LeaseEffects::Ended& ended : effects.ended) {
    // A release ends one lease; no client waits for others that end with it.
    restore(ended.lease, ended.why == LeaseEnd::kReleased ? done : nullptr);
    if (ended.why == LeaseEnd::kExpired) ++counters_.leases_expired;
    if (ended.why == LeaseEnd::kProcessEnded || ended.why == LeaseEnd::kChannelClosed) {
      ++counters_.leases_lost_with_process;
    }
  }
  counters_.leases_taken += static_cast<std::uint64_t>(effects.taken);
  Status logged = ok_status();
  for (AuditEntry& entry : effects.log) {
    // In a dry run leases are granted, but nothing is set under them or restored.
    if (options_.dry_run) entry.result = "would apply";
    if (Status status = audit_.write(entry); !status.ok()) logged = std::move(status);
  }
  for (AuditEntry& entry : effects.refused) audit_.refuse(std::move(entry), clock_.now());
  if (!effects.ended.empty() || effects.expiry || !effects.refused.empty() || !logged.ok()) {
    call_house_keeper();
  }
  return logged.ok() || policy_.goes_on_without_audit() ? ok_status() : std::move(logged);
}

void NodeController::tick() {
  leases_->tick(clock_.now());
  // A lease ends whether or not that can be written.
  (void)perform();
}

// --- Events.

Result<Lease> NodeController::grant(const Peer& peer, bool ends_with_process,
                                    const std::function<Result<LeaseEntry>(Instant)>& event) {
  std::optional<ProcessWatch> process;
  if (ends_with_process && peer.pid > 0) {
    process = HARPE_TRY(ProcessWatch::open(peer));
  }
  const MutexLock lock(mutex_);
  tick();
  const auto lease = event(clock_.now());
  Status logged = perform();
  if (!lease.ok()) return lease.error();
  if (!logged.ok()) {
    leases_->end(lease->id, LeaseEnd::kNotLogged, clock_.now());
    (void)perform();
    return std::move(logged).error();
  }
  if (process) watch(lease->id, *std::move(process));
  return view(*lease);
}

Result<Lease> NodeController::take(const Peer& peer, const LeaseRequest& request) {
  return grant(peer, request.ends_with_process, [&](Instant now) HARPE_REQUIRES(mutex_) {
    return leases_->take(peer, request, proven(), now);
  });
}

Result<Lease> NodeController::implied_lease(const Peer& peer, const std::vector<int>& gpus) {
  return grant(peer, true, [&](Instant now) HARPE_REQUIRES(mutex_) {
    return leases_->take_implied(peer, gpus, proven(), now);
  });
}

Status NodeController::renew(const Peer& peer, const std::string& lease, Seconds duration) {
  const MutexLock lock(mutex_);
  Status status = leases_->renew(peer, lease, duration, proven(), clock_.now());
  (void)perform();
  return status;
}

void NodeController::release(const Peer& peer, const std::string& lease,
                             Done<std::monostate> done) {
  Status released = ok_status();
  {
    const MutexLock lock(mutex_);
    tick();
    released = leases_->release(peer, lease, clock_.now());
    (void)perform(done);
  }
  if (!released.ok()) done(std::move(released));
}

void NodeController::end_lease(const std::string& lease, LeaseEnd why) {
  const MutexLock lock(mutex_);
  leases_->end(lease, why, clock_.now());
  (void)perform();
}

// --- Views.

std::vector<Lease> NodeController::holders(const Peer& peer, int gpu) {
  if (peer.uid != 0 && !check_readable(peer, gpu, true).ok()) return {};
  const MutexLock lock(mutex_);
  tick();
  std::vector<Lease> seen;
  for (const LeaseEntry* lease : leases_->book().holders(gpu)) {
    seen.push_back(view(*lease));
    seen.back().id.clear();
  }
  return seen;
}

std::vector<Lease> NodeController::leases(const Peer& peer) {
  const MutexLock lock(mutex_);
  tick();
  std::vector<Lease> seen;
  for (const LeaseEntry& lease : leases_->book().leases()) {
    if (peer.uid == 0 || same_user(peer, lease.holder)) seen.push_back(view(lease));
  }
  return seen;
}

}  // namespace harpe
