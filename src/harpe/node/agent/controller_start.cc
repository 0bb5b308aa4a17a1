#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "harpe/base/mutex.h"
#include "harpe/base/random_id.h"
#include "harpe/node/agent/gpu_lock.h"
#include "harpe/node/agent/node_controller.h"
#include "harpe/node/agent/policy_text.h"
#include "harpe/node/agent/setting_checks.h"
#include "harpe/node/agent/trusted_file.h"

namespace harpe {
namespace {

constexpr std::chrono::seconds kRestorePatience{10};  ///< with drivers, at the start
constexpr std::size_t kMostStateBytes = 4 << 20;
constexpr Seconds kBetweenLooks{2};  ///< at who computes on a GPU

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

}  // namespace

Result<std::unique_ptr<Controller>> Controller::start(Devices devices, Policy policy,
                                                      ControllerOptions options, Clock& clock) {
  HARPE_TRY(check(options));
  auto controller = std::make_unique<NodeController>(std::move(policy), std::move(options), clock);
  HARPE_TRY(controller->begin(std::move(devices)));
  return std::unique_ptr<Controller>(std::move(controller));
}

NodeController::NodeController(Policy policy, ControllerOptions options, Clock& clock)
    : policy_(std::move(policy)), options_(std::move(options)), clock_(clock) {}

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
  if (leases_ != nullptr) {
    const MutexLock lock(mutex_);
    leases_->stop(clock_.now());
    (void)perform();
  }
  // All at once, so that slow drivers are waited for together.
  for (const auto& owner : owners_) owner->begin_shutdown();
  const Seconds patience = options_.longest_shutdown + options_.longest_hang;
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::nanoseconds(static_cast<std::int64_t>(patience.value * 1e9));
  std::vector<int> hanging;
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    if (!owners_[i]->join_until(until)) hanging.push_back(static_cast<int>(i));
  }
  report_what_stays_changed(hanging);
  if (!options_.dry_run) (void)state_.mark_stopped();
  audit_.flush(clock_.now(), true);
  const MutexLock lock(events_mutex_);
  silent_ = true;
  return hanging.empty();
}

void NodeController::report_what_stays_changed(const std::vector<int>& hanging) {
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    const bool hangs = std::ranges::find(hanging, static_cast<int>(i)) != hanging.end();
    const auto saved = state_.entry(identities_[i].uuid);
    const std::string name = "GPU " + std::to_string(i);
    if (saved) {
      add_event(
          name + " stays changed" +
          (hangs ? ", as a call of its driver does not return" : "; it could not be restored") +
          ". Before it had: " + text_of(*saved) +
          ". The agent puts that back at its next start, unless the machine is restarted first");
    } else if (hangs) {
      add_event("a call of the driver of " + name + " does not return; nothing of it is changed");
    }
  }
}

Status NodeController::begin(Devices devices) {
  std::vector<SavedGpu> to_restore;
  HARPE_TRY(loop_.ready());
  house_keeping_due_ = HARPE_TRY(DueTimer::open(loop_, [this] { keep_house(); }));
  if (options_.dry_run) {
    add_event("dry run: nothing is set, and nothing that a crashed agent left is restored");
  } else {
    HARPE_TRY(take_locks(devices));
    HARPE_TRY(open_state(to_restore, devices));
  }
  // What was left changed is restored before anything else that can fail.
  Status logs = open_audit_log();
  start_owners(std::move(devices), to_restore);
  restore_and_wait(to_restore);
  if (!logs.ok()) return logs;
  report_unknown_gpus();
  HARPE_TRY(open_clock_socket());
  loop_.post([this] { keep_house(); });
  loop_thread_ = std::thread([this] { loop_.run(); });
  return ok_status();
}

/// Two agents would undo each other's settings.
Status NodeController::take_locks(const Devices& devices) {
  auto state = lock_file(options_.state_file.string() + ".lock",
                         "the state file " + options_.state_file.string());
  if (!state.ok()) {
    Error error = std::move(state).error();
    if (error.code == ErrorCode::kIo) {
      error.diagnostics.push_back(
          {.message = "the agent needs a directory of its own to write its state to"});
    }
    return error;
  }
  locks_.push_back(*std::move(state));
  gpu_locks_ = HARPE_TRY(lock_gpus(devices.gpus));
  return ok_status();
}

/// Takes over the entries of these GPUs from the state file of a killed agent, so that this agent
/// restores them. Fails if a running agent has that file.
Status NodeController::adopt_entries(const std::filesystem::path& file, const std::string& boot_id,
                                     const Devices& devices, std::vector<SavedGpu>& to_restore) {
  struct stat status{};
  if (::lstat(file.c_str(), &status) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
    return ok_status();
  }
  const auto text = read_trusted(file, kMostStateBytes);
  auto found =
      text.ok() ? parse_saved_state(*text, file.string()) : Result<SavedState>(text.error());
  if (!found.ok()) {
    add_event("the state file " + file.string() + " of the agent that had these GPUs before " +
              "cannot be used: " + found.error().text() + "; what it left changed, if anything, " +
              "is not restored: compare the GPUs with that file (harpe devices)");
    return ok_status();
  }
  std::erase_if(found->gpus, [&](const SavedGpu& saved) {
    return std::ranges::none_of(
        devices.gpus, [&](const auto& gpu) { return gpu->identity().uuid == saved.uuid; });
  });
  if (found->boot_id != boot_id || found->gpus.empty()) return ok_status();
  const auto lock = lock_file(file.string() + ".lock", "the state file " + file.string() +
                                                           ", which says what GPU " +
                                                           found->gpus[0].uuid + " had before");
  if (!lock.ok() && lock.error().code == ErrorCode::kConflict) return lock.error();
  if (!lock.ok()) {  // such as on a path that is read-only for this agent
    for (const SavedGpu& saved : found->gpus) {
      const bool is_new = !state_.entry(saved.uuid).has_value();
      if (is_new && state_.put(saved).ok()) to_restore.push_back(saved);
    }
    add_event("restores what " + file.string() + " says of its GPUs, but cannot take it out of " +
              "that file: " + lock.error().text());
    return ok_status();
  }
  StateFile other;
  HARPE_TRY(other.open(make_file_storage(file, text->size()), boot_id));
  for (const SavedGpu& saved : found->gpus) {
    // An entry in both files was copied by an agent that was killed before it removed the original.
    const bool is_known = state_.entry(saved.uuid).has_value();
    if (!is_known) to_restore.push_back(saved);
    if (is_known || state_.put(saved).ok()) (void)other.take_out(saved.uuid);
  }
  add_event("took over from " + file.string() + ", the state file of an agent that was killed: " +
            std::to_string(found->gpus.size()) + " of these GPUs");
  return ok_status();
}

Status NodeController::open_state(std::vector<SavedGpu>& to_restore, const Devices& devices) {
  auto boot_id = HARPE_TRY(this_boot_id());
  constexpr std::size_t kLeast = 4096;
  auto opened = HARPE_TRY(state_.open(
      make_file_storage(options_.state_file, kLeast + devices.gpus.size() * kStateBytesPerGpu),
      boot_id));
  for (const std::string& text : opened.events) add_event(text);
  to_restore = std::move(opened.to_restore);
  last_stopped_ = opened.stopped;
  std::error_code ignored;
  const auto own = std::filesystem::weakly_canonical(options_.state_file, ignored);
  for (const std::filesystem::path& file : gpu_locks_.last_states) {
    if (std::filesystem::weakly_canonical(file, ignored) != own)
      HARPE_TRY(adopt_entries(file, boot_id, devices, to_restore));
  }
  if (const Status named = name_state(gpu_locks_, options_.state_file); !named.ok()) {
    add_event(named.error().text() + "; where this agent is killed, and the next has another " +
              "state file, that one does not restore what this one left");
  }
  if (const std::string trouble = state_.trouble(); !trouble.empty()) {
    add_event("the state file cannot be written, and nothing is set until it can: " + trouble);
  }
  return ok_status();
}

Status NodeController::open_audit_log() {
  if (options_.audit_log.empty()) return ok_status();
  auto sink = HARPE_TRY(open_audit_file(options_.audit_log));
  audit_.open(std::move(sink), [this](const std::string& text) { add_event(text); });
  audit_.flush(clock_.now());
  return ok_status();
}

void NodeController::start_owners(Devices devices, const std::vector<SavedGpu>& to_restore) {
  std::vector<std::filesystem::path> device_files;
  for (const auto& gpu : devices.gpus) {
    identities_.push_back(gpu->identity());
    device_files.push_back(gpu->device_file());
  }
  prover_ = std::make_unique<GpuProver>(std::move(device_files), GpuProver::Roots());
  leases_ = std::make_unique<NodeLeases>(identities_, policy_, options_.leases,
                                         [] { return random_id(); });
  for (std::size_t i = 0; i < devices.gpus.size(); ++i) {
    auto control = std::make_unique<GpuControl>(
        std::move(devices.gpus[i]),
        GpuControl::Services{state_, audit_, counters_, !policy_.goes_on_without_audit(),
                             options_.dry_run});
    const auto saved = std::ranges::find(to_restore, identities_[i].uuid, &SavedGpu::uuid);
    if (saved != to_restore.end()) control->saved().take_over(*saved);
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
            [this, i](const GpuReading& reading) { heard(static_cast<int>(i), reading); },
            [this](const std::string& text) { add_event(text); },
            [this, i](const Result<std::vector<std::int64_t>>& processes) {
              prover_->computing(static_cast<int>(i),
                                 processes.ok() ? std::optional(*processes) : std::nullopt,
                                 clock_.now());
            }}));
  }
  cpus_ = std::make_unique<CpuOwner>(std::move(devices.cpus));
}

/// No error: one policy may serve many nodes.
void NodeController::report_unknown_gpus() {
  std::string names;
  for (const std::string& gpu : policy_.gpus_not_among(identities_)) {
    names += (names.empty() ? "" : ", ") + gpu;
  }
  if (names.empty()) return;
  add_event("the policy names GPUs that this node has not (harpe devices): " + names +
            "; what it allows for them allows nothing here");
}

void NodeController::restore_and_wait(const std::vector<SavedGpu>& to_restore) {
  struct Progress {
    Mutex mutex;
    CondVar changed;
    std::size_t left HARPE_GUARDED_BY(mutex) = 0;
  };
  const auto progress = std::make_shared<Progress>();
  for (const SavedGpu& saved : to_restore) {
    const auto found = std::ranges::find(identities_, saved.uuid, &GpuIdentity::uuid);
    if (found == identities_.end()) {
      add_event(saved.uuid + " is not here now, and was left changed by " +
                (last_stopped_ ? "the last agent, which could not restore it before it stopped"
                               : "a crashed agent") +
                " (before: " + text_of(saved) + "); it is restored when the agent starts with it");
      continue;
    }
    add_event(
        std::string(last_stopped_ ? "restoring what the last agent could not before it stopped"
                                  : "restoring what a crashed agent left changed") +
        " for " + saved.holder + " on GPU " + std::to_string(found->index) + ": " + text_of(saved));
    {
      const MutexLock lock(progress->mutex);
      ++progress->left;
    }
    const auto position = static_cast<std::size_t>(found - identities_.begin());
    owners_[position]->end_lease({}, [progress](const Status&) {
      const MutexLock lock(progress->mutex);
      --progress->left;
      progress->changed.notify_all();
    });
  }
  MutexLock lock(progress->mutex);
  progress->changed.wait_for(progress->mutex, kRestorePatience,
                             [&]() HARPE_REQUIRES(progress->mutex) { return progress->left == 0; });
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
    return take(peer, request);
  };
  leases.find = [this](const Peer& peer, const std::string& id) -> Result<Lease> {
    const MutexLock lock(mutex_);
    tick();
    const auto entry = HARPE_TRY(leases_->book().usable(peer, id, clock_.now()));
    return view(entry);
  };
  leases.renew = [this, find = leases.find](const Peer& peer, const std::string& id,
                                            Seconds duration) -> Result<Lease> {
    HARPE_TRY(renew(peer, id, duration));
    return find(peer, id);
  };
  leases.attach = [this](const Peer& peer, const std::string& id,
                         int gpu) -> Result<std::shared_ptr<ClockSlot>> {
    auto slot = ClockSlot::make();
    if (!slot.ok()) return slot;
    // Under the lock, so that the end of the lease is queued after it.
    const MutexLock lock(mutex_);
    tick();
    auto holder = HARPE_TRY(leases_->holder(peer, id, gpu, Control::kClocks, clock_.now()));
    HARPE_TRY(owners_[static_cast<std::size_t>(gpu)]->attach(*slot, std::move(holder)));
    return slot;
  };
  leases.apply = [this](const Peer& peer, const std::string& id, int gpu, const Setting& setting,
                        const Done<Applied>& done) {
    apply(peer, id, gpu, setting, [this, setting, done](Result<Applied> applied) {
      done(as_asked(std::move(applied), setting, options_.dry_run));
    });
  };
  leases.end = [this](const std::string& id) { end_lease(id, LeaseEnd::kChannelClosed); };
  clock_listener_ = HARPE_TRY(ClockListener::open(loop_, options_.clock_socket,
                                                  options_.clock_socket_mode, std::move(leases)));
  return ok_status();
}

}  // namespace harpe
