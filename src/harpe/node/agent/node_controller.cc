#include "harpe/node/agent/node_controller.h"

#include <algorithm>
#include <utility>

#include "harpe/device/hw/system_clock.h"
#include "harpe/node/agent/policy_text.h"

namespace harpe {

struct NodeController::Listener {
  explicit Listener(std::function<void(int, const GpuReading&)> hearing)
      : heard(std::move(hearing)) {}

  Mutex mutex;
  std::function<void(int, const GpuReading&)> heard
      HARPE_GUARDED_BY(mutex);  ///< empty when the handle is gone

  void hear(int gpu, const GpuReading& reading) {
    const MutexLock lock(mutex);
    if (heard) heard(gpu, reading);
  }
};

// Not inlined, or g++ 12 sees through it where it is deleted, and warns of a delete that does not
// match.
[[gnu::noinline]] void* NodeController::operator new(std::size_t size) {
  return ::operator new(size);
}

// --- What may be done.

NodeLeases::ProvenOf NodeController::proven() const {
  return [this](const Peer& peer, int gpu, Proofs wanted) {
    return prover_->proven(peer, gpu, wanted, clock_.now());
  };
}

Status NodeController::check_readable(const Peer& peer, int gpu, bool control_will_do) const {
  HARPE_TRY(NodeLeases::check_gpu(gpu, identities_.size()));
  const GpuIdentity& identity = identities_[static_cast<std::size_t>(gpu)];
  // What can be set is no secret to those who may set it at times.
  const Allowance allowed = policy_.allowance(peer, identity, policy_.required(peer, identity));
  if (allowed.read || (control_will_do && allowed.may_control())) return ok_status();
  return Error::of(ErrorCode::kNoPermission,
                   "the policy does not let " + text_of(peer) + " read GPU " + std::to_string(gpu));
}

Allowance NodeController::allowance(const Peer& peer, int gpu) const {
  const GpuIdentity& identity = identities_[static_cast<std::size_t>(gpu)];
  const Proofs wanted = policy_.required(peer, identity);
  return policy_.allowance(peer, identity, wanted.empty() ? wanted : proven()(peer, gpu, wanted));
}

Result<Holder> NodeController::holder_of(const Peer& peer, const std::string& lease, int gpu,
                                         Control control) {
  const MutexLock lock(mutex_);
  tick();
  return leases_->holder(peer, lease, gpu, control, clock_.now());
}

// --- On the loop's thread.

void NodeController::watch(const std::string& lease, ProcessWatch process) {
  auto shared = std::make_shared<ProcessWatch>(std::move(process));
  loop_.post([this, lease, shared] {
    // An implied lease that grew is watched already.
    const auto [at, is_new] = watches_.emplace(lease, WatchedProcess{std::move(*shared), nullptr});
    if (is_new) {
      at->second.watch = loop_.watch(at->second.process.descriptor(),
                                     [this, lease] { end_lease(lease, LeaseEnd::kProcessEnded); });
    }
    unwatch_ended();  // it may have ended already
  });
}

void NodeController::unwatch_ended() {
  for (auto at = watches_.begin(); at != watches_.end();) {
    const MutexLock lock(mutex_);
    if (leases_->book().find(at->first) != nullptr) {
      ++at;
      continue;
    }
    at = watches_.erase(at);
  }
}

void NodeController::call_house_keeper() {
  if (house_keeper_called_.exchange(true)) return;
  loop_.post([this] { keep_house(); });
}

void NodeController::keep_house() {
  house_keeper_called_ = false;
  constexpr Seconds kBetweenProofs{2};
  const Instant now = clock_.now();
  audit_.flush(now);
  std::optional<Instant> next = audit_.due(now);
  const auto consider = [&next](std::optional<Instant> other) {
    if (other && (!next || *other < *next)) next = other;
  };
  {
    const MutexLock lock(mutex_);
    tick();
    if (leases_->has_proven()) {
      if (next_proof_ <= now) {
        leases_->check_rights(proven(), now);
        (void)perform();
        next_proof_ = now + kBetweenProofs;
      }
      consider(next_proof_);
    }
    consider(leases_->book().next_expiry());
    std::vector<Peer> clients;
    for (const LeaseEntry& lease : leases_->book().leases()) clients.push_back(lease.holder);
    prover_->keep(clients);
  }
  unwatch_ended();
  if (next) {
    const Seconds left = std::max(*next - clock_.now(), Seconds{0.001});
    next = system_clock().now() + left;
  }
  house_keeping_due_->set(next);
}

// --- Settings and readings.

void NodeController::apply(const Peer& peer, const std::string& lease, int gpu,
                           const Setting& setting, Done<Applied> done) {
  const Control control = control_of(setting);
  if (auto holder = holder_of(peer, lease, gpu, control); !holder.ok()) {
    ++counters_.settings_refused;
    const MutexLock lock(mutex_);
    leases_->refused(peer, lease, text_of(setting), holder.error());
    (void)perform();
    return done(std::move(holder).error());
  }
  owners_[static_cast<std::size_t>(gpu)]->ask<Applied>(
      done,
      [this, peer, lease, gpu, control, setting](GpuControl& gpu_control) -> Result<Applied> {
        // It may have ended while this waited.
        auto holder = HARPE_TRY(holder_of(peer, lease, gpu, control));
        return gpu_control.apply(holder, setting, clock_.now());
      },
      true);
}

void NodeController::read(const Peer& peer, int gpu, Done<GpuReading> done) {
  if (Status status = check_readable(peer, gpu, false); !status.ok()) {
    return done(std::move(status).error());
  }
  owners_[static_cast<std::size_t>(gpu)]->read(std::move(done));
}

void NodeController::power_limit_range(const Peer& peer, int gpu, Done<PowerLimitRange> done) {
  if (Status status = check_readable(peer, gpu, true); !status.ok()) {
    return done(std::move(status).error());
  }
  owners_[static_cast<std::size_t>(gpu)]->ask<PowerLimitRange>(
      done, [](GpuControl& control) { return control.power_limit_range(); });
}

void NodeController::supported_clocks(const Peer& peer, int gpu, ClockDomain domain,
                                      Done<std::vector<Megahertz>> done) {
  if (Status status = check_readable(peer, gpu, true); !status.ok()) {
    return done(std::move(status).error());
  }
  owners_[static_cast<std::size_t>(gpu)]->ask<std::vector<Megahertz>>(
      done, [domain](GpuControl& control) { return control.supported_clocks(domain); });
}

void NodeController::read_cpu(const Peer& peer, int cpu, Done<CpuEnergy> done) {
  if (!policy_.may_read_node(peer)) {
    return done(Error::of(ErrorCode::kNoPermission,
                          "the policy does not let " + text_of(peer) + " read CPU energy"));
  }
  if (cpu < 0 || cpu >= cpus()) {
    return done(Error::of(ErrorCode::kNotFound, "there is no CPU " + std::to_string(cpu)));
  }
  cpus_->read(cpu, std::move(done));
}

std::shared_ptr<void> NodeController::listen(std::function<void(int, const GpuReading&)> heard) {
  const auto listener = std::make_shared<Listener>(std::move(heard));
  {
    const MutexLock lock(listeners_mutex_);
    listeners_.push_back(listener);
  }
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    owners_[i]->ask<std::monostate>([](const Status&) {},
                                    [listener, i, this](GpuControl& control) -> Status {
                                      listener->hear(static_cast<int>(i),
                                                     control.read_power(clock_.now()));
                                      return ok_status();
                                    });
    owners_[i]->set_listening(true);
  }
  // The handle's end waits for a call in progress; after it, none comes.
  return {listener.get(), [listener](void*) {
            const MutexLock lock(listener->mutex);
            listener->heard = nullptr;
          }};
}

void NodeController::heard(int gpu, const GpuReading& reading) {
  std::vector<std::shared_ptr<Listener>> listeners;
  {
    const MutexLock lock(listeners_mutex_);
    for (const auto& weak : listeners_) {
      if (auto listener = weak.lock()) listeners.push_back(std::move(listener));
    }
    std::erase_if(listeners_, [](const auto& weak) { return weak.expired(); });
    if (listeners.empty()) {
      for (const auto& owner : owners_) owner->set_listening(false);
    }
  }
  for (const auto& listener : listeners) listener->hear(gpu, reading);
}

Controller::Counts NodeController::counts() const {
  Counts counts;
  counts.leases_taken = counters_.leases_taken;
  counts.leases_expired = counters_.leases_expired;
  counts.leases_lost_with_process = counters_.leases_lost_with_process;
  counts.settings_applied = counters_.settings_applied;
  counts.settings_refused = counters_.settings_refused;
  counts.settings_failed = counters_.settings_failed;
  counts.clock_commands = counters_.clock_commands;
  counts.clock_commands_coalesced = counters_.clock_commands_coalesced;
  counts.restores = counters_.restores;
  counts.restore_failures = counters_.restore_failures;
  const AuditLog::Health audit = audit_.health();
  counts.refusals = audit.refusals;
  counts.audit_lines_lost = audit.lines_lost;
  return counts;
}

// --- What is said.

std::vector<std::string> NodeController::troubles() const {
  std::vector<std::string> troubles;
  if (std::string audit = audit_.health().trouble; !audit.empty()) {
    troubles.push_back(std::move(audit));
  }
  if (const std::string state = state_.trouble(); !state.empty()) {
    troubles.push_back("the state file cannot be written, and nothing more is set: " + state);
  }
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    if (owners_[i]->could_not_restore()) {
      troubles.push_back("GPU " + std::to_string(i) + " could not be restored yet");
    }
  }
  return troubles;
}

void NodeController::add_event(const std::string& text) const {
  constexpr std::size_t kMostEvents = 100;
  const MutexLock lock(events_mutex_);
  if (events_.size() == kMostEvents) events_.erase(events_.begin());
  events_.push_back(text);
  if (options_.on_event && !silent_) options_.on_event(text);
}

std::vector<std::string> NodeController::events() const {
  const MutexLock lock(events_mutex_);
  return events_;
}

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
