#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "harpe/base/mutex.h"
#include "harpe/base/random_id.h"
#include "harpe/node/agent/node_controller.h"
#include "harpe/node/agent/policy_text.h"
#include "harpe/node/agent/setting_checks.h"
#include "harpe/node/agent/trusted_file.h"

namespace harpe {
namespace {

constexpr std::chrono::seconds kRestorePatience{10};  ///< with drivers, at the start
constexpr Seconds kBetweenLooks{2};                   ///< at who computes on a GPU

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
      events.add(saved.uuid + " is not here now, and was left changed by " +
                 (state.last_stopped()
                      ? "the last agent, which could not restore it before it stopped"
                      : "a crashed agent") +
                 " (before: " + text_of(saved) + "); it is restored when the agent starts with it");
      continue;
    }
    events.add(std::string(state.last_stopped()
                               ? "restoring what the last agent could not before it stopped"
                               : "restoring what a crashed agent left changed") +
               " for " + saved.holder + " on GPU " + std::to_string(found->index) + ": " +
               text_of(saved));
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

/// Unknown GPUs are no error, because one policy may serve many nodes.
void report_unknown_gpus(const Policy& policy, const std::vector<GpuIdentity>& gpus,
                         AgentEvents& events) {
  std::string names;
  for (const std::string& gpu : policy.gpus_not_among(gpus)) {
    names += (names.empty() ? "" : ", ") + gpu;
  }
  if (names.empty()) return;
  events.add("the policy names GPUs that this node has not (harpe devices): " + names +
             "; what it allows for them allows nothing here");
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
          (hangs ? ", as a call of its driver does not return" : "; it could not be restored") +
          ". Before it had: " + text_of(*saved) +
          ". The agent puts that back at its next start, unless the machine is restarted first");
    } else if (hangs) {
      events.add("a call of the driver of " + name + " does not return; nothing of it is changed");
    }
  }
}

}  // namespace

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

// Not inlined, as operator new, or g++ 12 compares what both call.
[[gnu::noinline]] void NodeController::operator delete(NodeController* controller,
                                                       std::destroying_delete_t /*how*/) {
  if (!controller->end()) {
    // Known to leak checkers: it is meant.
    static std::atomic<NodeController*> left_behind;
    left_behind = controller;
    return;
  }
  controller->~NodeController();
  ::operator delete(controller);
}

bool NodeController::end() {
  if (loop_thread_.joinable()) {
    // After what was posted before.
    loop_.post([this] { loop_.stop(); });
    loop_thread_.join();
  }
  clock_listener_.reset();
  if (leases_ != nullptr) leases_->stop();
  // All at once, so that slow drivers are waited for together.
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
    events_.add("dry run: nothing is set, and nothing that a crashed agent left is restored");
  } else {
    HARPE_TRY(state_.open(options_.state_file, devices, events_));
  }
  // What was left changed is restored before anything else that can fail.
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
  leases.may_set_clocks = [this](const Peer& peer) {
    return std::ranges::any_of(identities_, [&](const GpuIdentity& gpu) {
      return !policy_.allowance(peer, gpu, policy_.required(peer, gpu)).clocks.empty();
    });
  };
  leases.take = [this](const Peer& peer, const LeaseRequest& request) {
    return leases_->take(peer, request);
  };
  leases.find = [this](const Peer& peer, const std::string& id) { return leases_->find(peer, id); };
  leases.renew = [this](const Peer& peer, const std::string& id,
                        Seconds duration) -> Result<Lease> {
    HARPE_TRY(leases_->renew(peer, id, duration));
    return leases_->find(peer, id);
  };
  leases.attach = [this](const Peer& peer, const std::string& id, int gpu) {
    return leases_->attach(peer, id, gpu);
  };
  leases.apply = [this](const Peer& peer, const std::string& id, int gpu, const Setting& setting,
                        const Done<Applied>& done) {
    apply(peer, id, gpu, setting, [this, setting, done](Result<Applied> applied) {
      done(as_asked(std::move(applied), setting, options_.dry_run));
    });
  };
  leases.end = [this](const std::string& id) { leases_->end(id, LeaseEnd::kChannelClosed); };
  clock_listener_ = HARPE_TRY(ClockListener::open(loop_, options_.clock_socket,
                                                  options_.clock_socket_mode, std::move(leases)));
  return ok_status();
}

}  // namespace harpe
