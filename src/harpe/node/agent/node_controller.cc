#include "harpe/node/agent/node_controller.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "harpe/base/random_id.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/node/agent/setting_checks.h"
#include "harpe/node/agent/trusted_file.h"

namespace harpe::node {

namespace {

constexpr std::size_t kMostWaiting = 4096;
/// Interval of readings, short enough that no wrap of a counter is missed (device.h).
constexpr std::chrono::seconds kBetweenReadings{20};

}  // namespace

CpuOwner::CpuOwner(std::vector<std::unique_ptr<Cpu>> cpus)
    : cpus_(std::move(cpus)), thread_([this] { run(); }) {}

CpuOwner::~CpuOwner() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CpuOwner::read(int cpu, Done<CpuEnergy> done) {
  {
    const MutexLock lock(mutex_);
    if (queue_.size() < kMostWaiting) queue_.emplace_back(cpu, std::exchange(done, nullptr));
  }
  if (done) {
    return done(Error::of(ErrorCode::kUnavailable, "too many requests wait for CPU energy"));
  }
  changed_.notify_one();
}

void CpuOwner::run() {
  MutexLock lock(mutex_);
  while (!stopping_ || !queue_.empty()) {
    if (queue_.empty()) {
      const bool woken = changed_.wait_for(
          mutex_, kBetweenReadings,
          [this]() HARPE_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
      if (!woken) {
        lock.unlock();
        for (const auto& cpu : cpus_) (void)cpu->total_energy();
        lock.lock();
      }
      continue;
    }
    auto [cpu, done] = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    done(cpus_[static_cast<std::size_t>(cpu)]->total_energy());
    done = nullptr;
    lock.lock();
  }
}

namespace {

constexpr std::chrono::seconds kRestorePatience{10};  ///< longest wait for drivers at the start
constexpr Seconds kBetweenLooks{2};  ///< interval of checks which processes compute on a GPU

Status check(const ControllerOptions& options) {
  if (!(options.minimum_dwell.value >= 0 && options.minimum_dwell.value <= 60)) {
    return Error::invalid("the minimum dwell is 0 to 60 s");
  }
  if (!(options.poll.value >= 0.001 && options.poll.value <= 3600)) {
    return Error::invalid("the polling period is 0.001 to 3600 s");
  }
  cpu_set_t usable;
  ::sched_getaffinity(0, sizeof usable, &usable);
  for (const int cpu : options.owner_cpus) {
    if (cpu >= 0 && cpu < CPU_SETSIZE && CPU_ISSET(cpu, &usable)) continue;
    return Error::invalid("the agent may not run on CPU " + std::to_string(cpu));
  }
  return ok_status();
}

Status open_audit_log(const std::filesystem::path& file, AuditLog& audit, AgentEvents& events,
                      Instant now) {
  if (file.empty()) return ok_status();
  auto sink = HARPE_TRY(open_audit_file(file));
  audit.open(std::move(sink), [&events](const std::string& text) { events.add(text); });
  audit.flush(now);
  return ok_status();
}

void restore_and_wait(const NodeState& state, const std::vector<GpuIdentity>& gpus,
                      const std::vector<std::unique_ptr<GpuOwner>>& owners, AgentEvents& events) {
  struct Progress {
    Mutex mutex;
    CondVar changed;
    std::size_t left HARPE_GUARDED_BY(mutex) = 0;
  };
  const auto progress = std::make_shared<Progress>();
  for (const SavedGpu& saved : state.to_restore()) {
    const auto found = std::ranges::find(gpus, saved.uuid, &GpuIdentity::uuid);
    if (found == gpus.end()) {
      events.add(saved.uuid + " is not on this node now, and was left changed by " +
                 (state.last_stopped()
                      ? "the last agent, which could not restore it before it stopped"
                      : "a crashed agent") +
                 " (before: " + text_of(saved) + "); it is restored when the agent starts with it");
      continue;
    }
    events.add(
        std::string(
            state.last_stopped()
                ? "restoring settings that the last agent could not restore before it stopped"
                : "restoring settings that a crashed agent left changed") +
        " for " + saved.holder + " on GPU " + std::to_string(found->index) + ": " + text_of(saved));
    {
      const MutexLock lock(progress->mutex);
      ++progress->left;
    }
    const auto position = static_cast<std::size_t>(found - gpus.begin());
    owners[position]->end_lease({}, [progress](const Status&) {
      const MutexLock lock(progress->mutex);
      --progress->left;
      progress->changed.notify_all();
    });
  }
  MutexLock lock(progress->mutex);
  progress->changed.wait_for(progress->mutex, kRestorePatience,
                             [&]() HARPE_REQUIRES(progress->mutex) { return progress->left == 0; });
}

/// Reports GPUs of the policy that this node lacks. This is not an error, because one policy can be
/// used on many nodes.
void report_unknown_gpus(const Policy& policy, const std::vector<GpuIdentity>& gpus,
                         AgentEvents& events) {
  std::string names;
  for (const std::string& gpu : policy.gpus_not_among(gpus)) {
    names += (names.empty() ? "" : ", ") + gpu;
  }
  if (names.empty()) return;
  events.add("the policy names GPUs that this node does not have (harpe devices): " + names +
             "; entries for them have no effect on this node");
}

void report_what_stays_changed(const std::vector<GpuIdentity>& gpus,
                               const std::vector<int>& hanging, StateFile& file,
                               AgentEvents& events) {
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const bool hangs = std::ranges::find(hanging, static_cast<int>(i)) != hanging.end();
    const auto saved = file.entry(gpus[i].uuid);
    const std::string name = "GPU " + std::to_string(i);
    if (saved) {
      events.add(
          name + " stays changed" +
          (hangs ? ", because a call of its driver does not return"
                 : "; it could not be restored") +
          ". Before it had: " + text_of(*saved) +
          ". The agent restores that at its next start, unless the machine is restarted first");
    } else if (hangs) {
      events.add("a call of the driver of " + name +
                 " does not return; none of its settings is changed");
    }
  }
}

}  // namespace

struct PowerListeners::Listener {
  explicit Listener(std::function<void(int, const GpuReading&)> hearing)
      : heard(std::move(hearing)) {}

  Mutex mutex;
  std::function<void(int, const GpuReading&)> heard
      HARPE_GUARDED_BY(mutex);  ///< empty after the handle is destroyed

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
  // Destroying the handle waits for a call in progress; no call follows.
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

// --- Start and end.

Result<std::unique_ptr<Controller>> Controller::start(Devices devices, Policy policy,
                                                      ControllerOptions options, Clock& clock) {
  HARPE_TRY(check(options));
  auto controller = std::make_unique<NodeController>(std::move(policy), std::move(options), clock);
  HARPE_TRY(controller->begin(std::move(devices)));
  return std::unique_ptr<Controller>(std::move(controller));
}

NodeController::NodeController(Policy policy, ControllerOptions options, Clock& clock)
    : policy_(std::move(policy)),
      options_(std::move(options)),
      clock_(clock),
      events_(options_.on_event),
      listeners_(owners_, clock) {}

// Not inlined, like operator new, because g++ 12 would compare the functions that both call.
[[gnu::noinline]] void NodeController::operator delete(NodeController* controller,
                                                       std::destroying_delete_t /*how*/) {
  if (!controller->end()) {
    // Reachable for leak checkers: this leak is intended.
    static std::atomic<NodeController*> left_behind;
    left_behind = controller;
    return;
  }
  controller->~NodeController();
  ::operator delete(controller);
}

bool NodeController::end() {
  if (loop_thread_.joinable()) {
    // Stops after everything posted earlier has run.
    loop_.post([this] { loop_.stop(); });
    loop_thread_.join();
  }
  clock_listener_.reset();
  if (leases_ != nullptr) leases_->stop();
  // All owners shut down at once, so that waits for slow drivers overlap.
  for (const auto& owner : owners_) owner->begin_shutdown();
  const Seconds patience = options_.longest_shutdown + options_.longest_hang;
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::nanoseconds(static_cast<std::int64_t>(patience.value * 1e9));
  std::vector<int> hanging;
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    if (!owners_[i]->join_until(until)) hanging.push_back(static_cast<int>(i));
  }
  report_what_stays_changed(identities_, hanging, state_.file(), events_);
  if (!options_.dry_run) (void)state_.file().mark_stopped();
  audit_.flush(clock_.now(), true);
  events_.silence();
  return hanging.empty();
}

Status NodeController::begin(Devices devices) {
  HARPE_TRY(loop_.ready());
  house_keeping_due_ = HARPE_TRY(DueTimer::open(loop_, [this] { keep_house(); }));
  if (options_.dry_run) {
    events_.add(
        "dry run: no setting is changed, and changes left by a crashed agent are not restored");
  } else {
    HARPE_TRY(state_.open(options_.state_file, devices, events_));
  }
  // Settings that an earlier agent left changed are restored before anything else can fail.
  Status logs = open_audit_log(options_.audit_log, audit_, events_, clock_.now());
  start_owners(std::move(devices));
  restore_and_wait(state_, identities_, owners_, events_);
  if (!logs.ok()) return logs;
  report_unknown_gpus(policy_, identities_, events_);
  HARPE_TRY(open_clock_socket());
  loop_.post([this] { keep_house(); });
  loop_thread_ = std::thread([this] { loop_.run(); });
  return ok_status();
}

void NodeController::start_owners(Devices devices) {
  std::vector<std::filesystem::path> device_files;
  for (const auto& gpu : devices.gpus) {
    identities_.push_back(gpu->identity());
    device_files.push_back(gpu->device_file());
  }
  prover_ = std::make_unique<GpuProver>(std::move(device_files), GpuProver::Roots());
  leases_ = std::make_unique<LeaseKeeper>(
      NodeLeases(identities_, policy_, options_.leases, [] { return random_id(); }),
      LeaseKeeper::Services{owners_, audit_, counters_, *prover_, loop_, clock_, options_.dry_run,
                            [this] { call_house_keeper(); }});
  for (std::size_t i = 0; i < devices.gpus.size(); ++i) {
    auto control = std::make_unique<GpuControl>(
        std::move(devices.gpus[i]),
        GpuControl::Services{state_.file(), audit_, counters_, !policy_.goes_on_without_audit(),
                             options_.dry_run});
    const auto saved = std::ranges::find(state_.to_restore(), identities_[i].uuid, &SavedGpu::uuid);
    if (saved != state_.to_restore().end()) control->saved().take_over(*saved);
    GpuOwner::Options options;
    options.minimum_dwell = options_.minimum_dwell;
    options.poll = options_.poll;
    options.prompt = options_.prompt_owners;
    options.cpus = options_.owner_cpus;
    options.longest_shutdown = options_.longest_shutdown;
    if (policy_.required().has(Proof::kComputing)) options.look_at_processes = kBetweenLooks;
    owners_.push_back(std::make_unique<GpuOwner>(
        std::move(control), options, counters_, clock_,
        GpuOwner::Observers{
            [this, i](const GpuReading& reading) { listeners_.hear(static_cast<int>(i), reading); },
            [this](const std::string& text) { events_.add(text); },
            [this, i](const Result<std::vector<std::int64_t>>& processes) {
              prover_->computing(static_cast<int>(i),
                                 processes.ok() ? std::optional(*processes) : std::nullopt,
                                 clock_.now());
            }}));
  }
  cpus_ = std::make_unique<CpuOwner>(std::move(devices.cpus));
}

Status NodeController::open_clock_socket() {
  if (options_.clock_socket.empty()) return ok_status();
  if (options_.clock_socket.has_parent_path()) {
    HARPE_TRY(check_trusted_directory(options_.clock_socket.parent_path()));
  }
  ClockListener::Leases leases;
  leases.may_set_clocks = [this](const net::Peer& peer) {
    return std::ranges::any_of(identities_, [&](const GpuIdentity& gpu) {
      return !policy_.allowance(peer, gpu, policy_.required(peer, gpu)).clocks.empty();
    });
  };
  leases.take = [this](const net::Peer& peer, const LeaseRequest& request) {
    return leases_->take(peer, request);
  };
  leases.find = [this](const net::Peer& peer, const std::string& id) {
    return leases_->find(peer, id);
  };
  leases.renew = [this](const net::Peer& peer, const std::string& id,
                        Seconds duration) -> Result<Lease> {
    HARPE_TRY(leases_->renew(peer, id, duration));
    return leases_->find(peer, id);
  };
  leases.attach = [this](const net::Peer& peer, const std::string& id, int gpu) {
    return leases_->attach(peer, id, gpu);
  };
  leases.apply = [this](const net::Peer& peer, const std::string& id, int gpu,
                        const Setting& setting, const Done<Applied>& done) {
    apply(peer, id, gpu, setting, [this, setting, done](Result<Applied> applied) {
      done(as_asked(std::move(applied), setting, options_.dry_run));
    });
  };
  leases.end = [this](const std::string& id) { leases_->end(id, LeaseEnd::kChannelClosed); };
  clock_listener_ = HARPE_TRY(ClockListener::open(loop_, options_.clock_socket,
                                                  options_.clock_socket_mode, std::move(leases)));
  return ok_status();
}

// Not inlined, because g++ 12 would warn of a mismatched delete where the object is deleted.
[[gnu::noinline]] void* NodeController::operator new(std::size_t size) {
  return ::operator new(size);
}

// --- Permissions.

Status NodeController::check_readable(const net::Peer& peer, int gpu, bool control_will_do) const {
  HARPE_TRY(NodeLeases::check_gpu(gpu, identities_.size()));
  const GpuIdentity& identity = identities_[static_cast<std::size_t>(gpu)];
  // A client that may set a control at some times may always read what can be set.
  const Allowance allowed = policy_.allowance(peer, identity, policy_.required(peer, identity));
  if (allowed.read || (control_will_do && allowed.may_control())) return ok_status();
  return Error::of(ErrorCode::kNoPermission, "the policy does not allow " + text_of(peer) +
                                                 " to read GPU " + std::to_string(gpu));
}

Allowance NodeController::allowance(const net::Peer& peer, int gpu) const {
  const GpuIdentity& identity = identities_[static_cast<std::size_t>(gpu)];
  const Proofs wanted = policy_.required(peer, identity);
  return policy_.allowance(
      peer, identity, wanted.empty() ? wanted : prover_->proven(peer, gpu, wanted, clock_.now()));
}

std::vector<Lease> NodeController::holders(const net::Peer& peer, int gpu) {
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

void NodeController::apply(const net::Peer& peer, const std::string& lease, int gpu,
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
        // The lease may have ended while this call waited.
        auto holder = HARPE_TRY(leases_->holder(peer, lease, gpu, control));
        return gpu_control.apply(holder, setting, clock_.now());
      },
      true);
}

void NodeController::read(const net::Peer& peer, int gpu, Done<GpuReading> done) {
  if (Status status = check_readable(peer, gpu, false); !status.ok()) {
    return done(std::move(status).error());
  }
  owners_[static_cast<std::size_t>(gpu)]->read(std::move(done));
}

void NodeController::power_limit_range(const net::Peer& peer, int gpu, Done<PowerLimitRange> done) {
  if (Status status = check_readable(peer, gpu, true); !status.ok()) {
    return done(std::move(status).error());
  }
  owners_[static_cast<std::size_t>(gpu)]->ask<PowerLimitRange>(
      done, [](GpuControl& control) { return control.power_limit_range(); });
}

void NodeController::supported_clocks(const net::Peer& peer, int gpu, ClockDomain domain,
                                      Done<std::vector<Megahertz>> done) {
  if (Status status = check_readable(peer, gpu, true); !status.ok()) {
    return done(std::move(status).error());
  }
  owners_[static_cast<std::size_t>(gpu)]->ask<std::vector<Megahertz>>(
      done, [domain](GpuControl& control) { return control.supported_clocks(domain); });
}

void NodeController::read_cpu(const net::Peer& peer, int cpu, Done<CpuEnergy> done) {
  if (!policy_.may_read_node(peer)) {
    return done(Error::of(ErrorCode::kNoPermission,
                          "the policy does not allow " + text_of(peer) + " to read CPU energy"));
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

// --- Reports.

std::vector<std::string> NodeController::troubles() const {
  std::vector<std::string> troubles;
  if (std::string audit = audit_.health().trouble; !audit.empty()) {
    troubles.push_back(std::move(audit));
  }
  if (const std::string state = state_.file().trouble(); !state.empty()) {
    troubles.push_back("the state file cannot be written, and no more settings are changed: " +
                       state);
  }
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    if (owners_[i]->could_not_restore()) {
      troubles.push_back("GPU " + std::to_string(i) + " could not be restored yet");
    }
  }
  return troubles;
}

}  // namespace harpe::node
