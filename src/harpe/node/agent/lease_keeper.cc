#include "harpe/node/agent/lease_keeper.h"

#include <algorithm>
#include <utility>

namespace harpe::node {
namespace {

constexpr Seconds kBetweenProofs{2};

Lease view(const LeaseEntry& lease, Instant now) {
  Lease view;
  view.id = lease.id;
  view.gpus = lease.gpus;
  view.uid = lease.holder.uid;
  view.pid = lease.holder.pid;
  view.name = lease.name;
  view.expires_in = lease.expires - now;
  view.controls = lease.controls;
  return view;
}

}  // namespace

// --- Events.

NodeLeases::ProvenOf LeaseKeeper::proven() const {
  return [this](const net::Peer& peer, int gpu, Proofs wanted) {
    return services_.prover.proven(peer, gpu, wanted, now());
  };
}

Result<Lease> LeaseKeeper::grant(const net::Peer& peer, bool ends_with_process,
                                 const std::function<Result<LeaseEntry>(Instant)>& event) {
  std::optional<ProcessWatch> process;
  if (ends_with_process && peer.pid > 0) {
    process = HARPE_TRY(ProcessWatch::open(peer));
  }
  const MutexLock lock(mutex_);
  tick();
  const auto lease = event(now());
  Status logged = perform();
  if (!lease.ok()) return lease.error();
  if (!logged.ok()) {
    leases_.end(lease->id, LeaseEnd::kNotLogged, now());
    (void)perform();
    return std::move(logged).error();
  }
  if (process) watch(lease->id, *std::move(process));
  return view(*lease, now());
}

Result<Lease> LeaseKeeper::take(const net::Peer& peer, const LeaseRequest& request) {
  return grant(peer, request.ends_with_process, [&](Instant now) HARPE_REQUIRES(mutex_) {
    return leases_.take(peer, request, proven(), now);
  });
}

Result<Lease> LeaseKeeper::implied_lease(const net::Peer& peer, const std::vector<int>& gpus) {
  return grant(peer, true, [&](Instant now) HARPE_REQUIRES(mutex_) {
    return leases_.take_implied(peer, gpus, proven(), now);
  });
}

Status LeaseKeeper::renew(const net::Peer& peer, const std::string& lease, Seconds duration) {
  const MutexLock lock(mutex_);
  Status status = leases_.renew(peer, lease, duration, proven(), now());
  (void)perform();
  return status;
}

void LeaseKeeper::release(const net::Peer& peer, const std::string& lease,
                          const Done<std::monostate>& done) {
  Status released = ok_status();
  {
    const MutexLock lock(mutex_);
    tick();
    released = leases_.release(peer, lease, now());
    (void)perform(done);
  }
  if (!released.ok()) done(std::move(released));
}

void LeaseKeeper::end(const std::string& lease, LeaseEnd why) {
  const MutexLock lock(mutex_);
  leases_.end(lease, why, now());
  (void)perform();
}

void LeaseKeeper::stop() {
  const MutexLock lock(mutex_);
  leases_.stop(now());
  (void)perform();
}

void LeaseKeeper::refused(const net::Peer& peer, const std::string& lease, const std::string& what,
                          const Error& error) {
  const MutexLock lock(mutex_);
  leases_.refused(peer, lease, what, error);
  (void)perform();
}

// --- Views.

std::vector<Lease> LeaseKeeper::leases(const net::Peer& peer) {
  const MutexLock lock(mutex_);
  tick();
  std::vector<Lease> seen;
  for (const LeaseEntry& lease : leases_.book().leases()) {
    if (peer.uid == 0 || same_user(peer, lease.holder)) seen.push_back(view(lease, now()));
  }
  return seen;
}

std::vector<Lease> LeaseKeeper::holders(int gpu) {
  const MutexLock lock(mutex_);
  tick();
  std::vector<Lease> seen;
  for (const LeaseEntry* lease : leases_.book().holders(gpu)) {
    seen.push_back(view(*lease, now()));
    seen.back().id.clear();
  }
  return seen;
}

Result<Lease> LeaseKeeper::find(const net::Peer& peer, const std::string& lease) {
  const MutexLock lock(mutex_);
  tick();
  const auto entry = HARPE_TRY(leases_.book().usable(peer, lease, now()));
  return view(entry, now());
}

Result<Holder> LeaseKeeper::holder(const net::Peer& peer, const std::string& lease, int gpu,
                                   Control control) {
  const MutexLock lock(mutex_);
  tick();
  return leases_.holder(peer, lease, gpu, control, now());
}

Result<std::shared_ptr<ClockSlot>> LeaseKeeper::attach(const net::Peer& peer,
                                                       const std::string& lease, int gpu) {
  auto slot = ClockSlot::make();
  if (!slot.ok()) return slot;
  // The lock makes the end of the lease queue after the slot.
  const MutexLock lock(mutex_);
  tick();
  auto holder = HARPE_TRY(leases_.holder(peer, lease, gpu, Control::kClocks, now()));
  HARPE_TRY(services_.owners[static_cast<std::size_t>(gpu)]->attach(*slot, std::move(holder)));
  return slot;
}

// --- Ends of leases.

std::optional<Instant> LeaseKeeper::keep(Instant now) {
  std::optional<Instant> next;
  {
    const MutexLock lock(mutex_);
    tick();
    const bool has_proven = leases_.has_proven();
    if (has_proven && next_proof_ <= now) {
      leases_.check_rights(proven(), now);
      (void)perform();
      next_proof_ = now + kBetweenProofs;
    }
    next = leases_.book().next_expiry();
    if (has_proven) next = std::min(next.value_or(next_proof_), next_proof_);
    std::vector<net::Peer> clients;
    for (const LeaseEntry& lease : leases_.book().leases()) clients.push_back(lease.holder);
    services_.prover.keep(clients);
  }
  unwatch_ended();
  return next;
}

void LeaseKeeper::watch(const std::string& lease, ProcessWatch process) {
  auto shared = std::make_shared<ProcessWatch>(std::move(process));
  services_.loop.post([this, lease, shared] {
    // An implied lease that grew is watched already.
    const auto [at, is_new] = watches_.emplace(lease, WatchedProcess{std::move(*shared), nullptr});
    if (is_new) {
      at->second.watch = services_.loop.watch(
          at->second.process.descriptor(), [this, lease] { end(lease, LeaseEnd::kProcessEnded); });
    }
    unwatch_ended();  // the lease may have ended already
  });
}

void LeaseKeeper::unwatch_ended() {
  for (auto at = watches_.begin(); at != watches_.end();) {
    const MutexLock lock(mutex_);
    if (leases_.book().find(at->first) != nullptr) {
      ++at;
      continue;
    }
    at = watches_.erase(at);
  }
}

// --- Effects.

void LeaseKeeper::restore(const LeaseEntry& lease, const Done<std::monostate>& done) {
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
    services_.owners[static_cast<std::size_t>(gpu)]->end_lease(leases_.holder(lease, gpu),
                                                               one_done);
  }
}

Status LeaseKeeper::perform(const Done<std::monostate>& done) {
  LeaseEffects effects = leases_.take_effects();
  for (const LeaseEffects::Ended& ended : effects.ended) {
    // A release ends one lease; no client waits for others that end with it.
    restore(ended.lease, ended.why == LeaseEnd::kReleased ? done : nullptr);
    if (ended.why == LeaseEnd::kExpired) ++services_.counters.leases_expired;
    if (ended.why == LeaseEnd::kProcessEnded || ended.why == LeaseEnd::kChannelClosed) {
      ++services_.counters.leases_lost_with_process;
    }
  }
  services_.counters.leases_taken += static_cast<std::uint64_t>(effects.taken);
  Status logged = ok_status();
  for (AuditEntry& entry : effects.log) {
    // In a dry run leases are granted, but nothing is set under them or restored.
    if (services_.dry_run) entry.result = "would apply";
    if (Status status = services_.audit.write(entry); !status.ok()) logged = std::move(status);
  }
  for (AuditEntry& entry : effects.refused) services_.audit.refuse(std::move(entry), now());
  if (!effects.ended.empty() || effects.expiry || !effects.refused.empty() || !logged.ok()) {
    services_.keep_soon();
  }
  return logged.ok() || leases_.policy().goes_on_without_audit() ? ok_status() : std::move(logged);
}

void LeaseKeeper::tick() {
  leases_.tick(now());
  // A lease ends even if the log cannot be written.
  (void)perform();
}

}  // namespace harpe::node
