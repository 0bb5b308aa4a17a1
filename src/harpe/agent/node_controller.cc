#include "harpe/agent/node_controller.h"

#include <algorithm>
#include <utility>

#include "harpe/agent/setting_text.h"
#include "harpe/hw/system_clock.h"

namespace harpe {

struct NodeController::Listener {
  std::mutex mutex;
  std::function<void(int, const GpuReading&)> heard;  ///< empty when the handle is gone

  void hear(int gpu, const GpuReading& reading) {
    const std::lock_guard lock(mutex);
    if (heard) heard(gpu, reading);
  }
};

// Not in the file that deletes: g++ 12 would see through it, and warn of a delete that does not
// match.
void* NodeController::operator new(std::size_t size) {
  return ::operator new(size);
}

// --- What may be done.

Status NodeController::check_gpu(int gpu) const {
  if (gpu >= 0 && gpu < static_cast<int>(owners_.size())) return ok_status();
  return Error::of(ErrorCode::kNotFound, "there is no GPU " + std::to_string(gpu) +
                                             "; this node has " + std::to_string(owners_.size()) +
                                             " (harpe devices)");
}

Status NodeController::check_readable(const Peer& peer, int gpu, bool control_will_do) const {
  if (Status status = check_gpu(gpu); !status) return status;
  const Allowance allowed = policy_.allowance(peer, identities_[static_cast<std::size_t>(gpu)]);
  if (allowed.read || (control_will_do && allowed.may_control())) return ok_status();
  return Error::of(ErrorCode::kNoPermission,
                   "the policy does not let " + text_of(peer) + " read GPU " + std::to_string(gpu));
}

/// How long a lease on all of these may last.
Result<Seconds> NodeController::longest_lease(const Peer& peer,
                                              const std::vector<int>& gpus) const {
  Seconds longest{1e9};
  for (const int gpu : gpus) {
    if (Status status = check_gpu(gpu); !status) return std::move(status).error();
    const GpuIdentity& identity = identities_[static_cast<std::size_t>(gpu)];
    const Allowance allowed = policy_.allowance(peer, identity);
    if (!allowed.may_control()) {
      return Error::of(ErrorCode::kNoPermission, "the policy does not let " + text_of(peer) +
                                                     " set anything on GPU " + std::to_string(gpu));
    }
    if (identity.is_mig) {
      return Error::of(ErrorCode::kNotSupported,
                       "GPU " + std::to_string(gpu) +
                           " is divided into MIG instances, which share one clock and one power "
                           "limit: it cannot be set for one of them");
    }
    longest = std::min(longest, allowed.max_lease);
  }
  return longest;
}

Holder NodeController::holder_of(const LeaseEntry& lease, int gpu) const {
  return {lease.holder, lease.id,
          policy_.allowance(lease.holder, identities_[static_cast<std::size_t>(gpu)]),
          lease.controls};
}

Result<Holder> NodeController::holder_of(const Peer& peer, const std::string& lease, int gpu,
                                         Control control) const {
  if (Status status = check_gpu(gpu); !status) return std::move(status).error();
  const std::lock_guard lock(mutex_);
  return holder_of_locked(peer, lease, gpu, control);
}

Result<Holder> NodeController::holder_of_locked(const Peer& peer, const std::string& lease, int gpu,
                                                Control control) const {
  expire_locked();
  const auto entry = book_.usable(peer, lease, clock_.now());
  if (!entry) return entry.error();
  if (!std::ranges::binary_search(entry->gpus, gpu)) {
    return Error::of(ErrorCode::kConflict, "the lease holds " + list_of(entry->gpus) +
                                               ", not GPU " + std::to_string(gpu));
  }
  if (!entry->controls.has(control)) {
    return Error::of(ErrorCode::kConflict, "the lease is for " + text_of(entry->controls) +
                                               ", not for " + text_of(Controls{control}));
  }
  Holder holder = holder_of(*entry, gpu);
  holder.peer.pid = peer.pid;
  return holder;
}

// --- On the loop's thread.

void NodeController::watch(const std::string& lease, ProcessWatch process) {
  auto shared = std::make_shared<ProcessWatch>(std::move(process));
  loop_.post([this, lease, shared] {
    const int descriptor = shared->descriptor();
    watches_.emplace(lease, std::move(*shared));
    loop_.add(descriptor, [this, lease] { end_lease(lease, End::kProcessEnded); });
    unwatch_ended();  // it may have ended already
  });
}

void NodeController::unwatch_ended() {
  for (auto at = watches_.begin(); at != watches_.end();) {
    const std::lock_guard lock(mutex_);
    if (book_.find(at->first) != nullptr) {
      ++at;
      continue;
    }
    loop_.remove(at->second.descriptor());
    at = watches_.erase(at);
  }
}

void NodeController::set_expiry_timer() {
  std::optional<Instant> next;
  {
    const std::lock_guard lock(mutex_);
    expire_locked();
    next = book_.next_expiry();
  }
  unwatch_ended();
  if (next) {
    const Seconds left = std::max(*next - clock_.now(), Seconds{0.001});
    next = system_clock().now() + left;
  }
  loop_.set_timer(next, [this] { set_expiry_timer(); });
}

// --- Settings and readings.

void NodeController::apply(const Peer& peer, const std::string& lease, int gpu,
                           const Setting& setting, Done<Applied> done) {
  const Control control = control_of(setting);
  if (auto holder = holder_of(peer, lease, gpu, control); !holder) {
    ++counters_.settings_refused;
    return done(std::move(holder).error());
  }
  owners_[static_cast<std::size_t>(gpu)]->ask<Applied>(
      done,
      [this, peer, lease, gpu, control, setting](GpuControl& gpu_control) -> Result<Applied> {
        // It may have ended while this waited.
        auto holder = holder_of(peer, lease, gpu, control);
        if (!holder) return std::move(holder).error();
        return gpu_control.apply(*holder, setting);
      },
      true);
}

void NodeController::read(const Peer& peer, int gpu, Done<GpuReading> done) {
  if (Status status = check_readable(peer, gpu, false); !status) {
    return done(std::move(status).error());
  }
  owners_[static_cast<std::size_t>(gpu)]->read(std::move(done));
}

void NodeController::power_limit_range(const Peer& peer, int gpu, Done<PowerLimitRange> done) {
  if (Status status = check_readable(peer, gpu, true); !status) {
    return done(std::move(status).error());
  }
  owners_[static_cast<std::size_t>(gpu)]->ask<PowerLimitRange>(
      done, [](GpuControl& control) { return control.power_limit_range(); });
}

void NodeController::supported_clocks(const Peer& peer, int gpu, ClockDomain domain,
                                      Done<std::vector<Megahertz>> done) {
  if (Status status = check_readable(peer, gpu, true); !status) {
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
  const auto listener = std::make_shared<Listener>();
  listener->heard = std::move(heard);
  {
    const std::lock_guard lock(listeners_mutex_);
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
            const std::lock_guard lock(listener->mutex);
            listener->heard = nullptr;
          }};
}

void NodeController::heard(int gpu, const GpuReading& reading) {
  std::vector<std::shared_ptr<Listener>> listeners;
  {
    const std::lock_guard lock(listeners_mutex_);
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
  return counts;
}

// --- What is said.

Status NodeController::log(const Peer& peer, const char* action, const std::string& lease,
                           const std::string& to, const std::string& result) const {
  AuditEntry entry;
  entry.action = action;
  entry.peer = peer;
  entry.lease = lease;
  entry.to = to;
  // In a dry run leases are granted, but nothing is set under them or put back.
  entry.result = options_.dry_run && result == "applied" ? "would apply" : result;
  return audit_.write(entry);
}

void NodeController::notice(const std::string& text) const {
  constexpr std::size_t kMost = 100;
  const std::lock_guard lock(notices_mutex_);
  if (notices_.size() == kMost) notices_.erase(notices_.begin());
  notices_.push_back(text);
  if (options_.notice && !silent_) options_.notice(text);
}

std::vector<std::string> NodeController::notices() const {
  const std::lock_guard lock(notices_mutex_);
  return notices_;
}

}  // namespace harpe
