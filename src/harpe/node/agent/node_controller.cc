#include "harpe/node/agent/node_controller.h"

#include <algorithm>
#include <utility>

#include "harpe/device/hw/system_clock.h"
#include "harpe/node/agent/policy_text.h"

namespace harpe {

struct PowerListeners::Listener {
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

std::shared_ptr<void> PowerListeners::add(std::function<void(int, const GpuReading&)> heard) {
  const auto listener = std::make_shared<Listener>(std::move(heard));
  {
    const MutexLock lock(mutex_);
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

void PowerListeners::hear(int gpu, const GpuReading& reading) {
  std::vector<std::shared_ptr<Listener>> listeners;
  {
    const MutexLock lock(mutex_);
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

// Not inlined, or g++ 12 sees through it where it is deleted, and warns of a delete that does not
// match.
[[gnu::noinline]] void* NodeController::operator new(std::size_t size) {
  return ::operator new(size);
}

// --- What may be done.

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
  return policy_.allowance(
      peer, identity, wanted.empty() ? wanted : prover_->proven(peer, gpu, wanted, clock_.now()));
}

std::vector<Lease> NodeController::holders(const Peer& peer, int gpu) {
  if (peer.uid != 0 && !check_readable(peer, gpu, true).ok()) return {};
  return leases_->holders(gpu);
}

// --- On the loop's thread.

void NodeController::call_house_keeper() {
  if (house_keeper_called_.exchange(true)) return;
  loop_.post([this] { keep_house(); });
}

void NodeController::keep_house() {
  house_keeper_called_ = false;
  const Instant now = clock_.now();
  audit_.flush(now);
  std::optional<Instant> next = audit_.due(now);
  const std::optional<Instant> of_leases = leases_->keep(now);
  if (of_leases && (!next || *of_leases < *next)) next = of_leases;
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
  if (auto holder = leases_->holder(peer, lease, gpu, control); !holder.ok()) {
    ++counters_.settings_refused;
    leases_->refused(peer, lease, text_of(setting), holder.error());
    return done(std::move(holder).error());
  }
  owners_[static_cast<std::size_t>(gpu)]->ask<Applied>(
      done,
      [this, peer, lease, gpu, control, setting](GpuControl& gpu_control) -> Result<Applied> {
        // It may have ended while this waited.
        auto holder = HARPE_TRY(leases_->holder(peer, lease, gpu, control));
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
  if (const std::string state = state_.file().trouble(); !state.empty()) {
    troubles.push_back("the state file cannot be written, and nothing more is set: " + state);
  }
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    if (owners_[i]->could_not_restore()) {
      troubles.push_back("GPU " + std::to_string(i) + " could not be restored yet");
    }
  }
  return troubles;
}

}  // namespace harpe
