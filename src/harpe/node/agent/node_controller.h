#pragma once
/// \file
/// The controller of a node (controller.h): its leases, the owners of its GPUs, and a thread that
/// watches what ends leases. This header is private to the room.
///
/// What becomes of leases is decided by a state machine (node_leases.h); here its effects are done.
/// Order of locks: that of the leases, then those of queues, logs and events. What ends a lease is
/// queued to the owners under the lock of the leases, so that no later lease's setting comes before
/// it.

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/net/http/server_loop.h"
#include "harpe/node/agent/audit_log.h"
#include "harpe/node/agent/clock_listener.h"
#include "harpe/node/agent/controller.h"
#include "harpe/node/agent/counters.h"
#include "harpe/node/agent/cpu_owner.h"
#include "harpe/node/agent/due_timer.h"
#include "harpe/node/agent/gpu_lock.h"
#include "harpe/node/agent/gpu_owner.h"
#include "harpe/node/agent/gpu_proof.h"
#include "harpe/node/agent/node_leases.h"
#include "harpe/node/agent/process_watch.h"
#include "harpe/node/agent/saved_state.h"

namespace harpe {

class NodeController final : public Controller {
 public:
  NodeController(Policy policy, ControllerOptions options, Clock& clock);
  /// Leaves everything behind where a driver's call hangs: its thread still works with it.
  static void operator delete(NodeController* controller, std::destroying_delete_t how);
  static void* operator new(std::size_t size);
  /// Opens files, starts threads, restores what is left. Once, before all else.
  Status begin(Devices devices);

  std::vector<std::string> events() const override;
  std::vector<std::string> troubles() const override;
  Status reopen_audit_log() override { return audit_.reopen(); }
  const std::vector<GpuIdentity>& gpus() const override { return identities_; }
  const Policy& policy() const override { return policy_; }
  int cpus() const override { return cpus_ == nullptr ? 0 : cpus_->count(); }

  Allowance allowance(const Peer& peer, int gpu) const override;
  Result<Lease> take(const Peer& peer, const LeaseRequest& request) override;
  Status renew(const Peer& peer, const std::string& lease, Seconds duration) override;
  void release(const Peer& peer, const std::string& lease, Done<std::monostate> done) override;
  std::vector<Lease> leases(const Peer& peer) override;
  std::vector<Lease> holders(const Peer& peer, int gpu) override;
  Result<Lease> implied_lease(const Peer& peer, const std::vector<int>& gpus) override;
  void apply(const Peer& peer, const std::string& lease, int gpu, const Setting& setting,
             Done<Applied> done) override;
  void read(const Peer& peer, int gpu, Done<GpuReading> done) override;
  void power_limit_range(const Peer& peer, int gpu, Done<PowerLimitRange> done) override;
  void supported_clocks(const Peer& peer, int gpu, ClockDomain domain,
                        Done<std::vector<Megahertz>> done) override;
  void read_cpu(const Peer& peer, int cpu, Done<CpuEnergy> done) override;
  std::shared_ptr<void> listen(std::function<void(int, const GpuReading&)> heard) override;
  Counts counts() const override;

 private:
  struct Listener;
  struct WatchedProcess {
    ProcessWatch process;
    std::shared_ptr<void> watch;
  };

  /// What destruction begins with: false where a driver's call hangs.
  bool end();
  Status take_locks(const Devices& devices);
  Status open_state(std::vector<SavedGpu>& to_restore, const Devices& devices);
  Status adopt_entries(const std::filesystem::path& file, const std::string& boot_id,
                       const Devices& devices, std::vector<SavedGpu>& to_restore);
  Status open_audit_log();
  void start_owners(Devices devices, const std::vector<SavedGpu>& to_restore);
  void report_unknown_gpus();
  void restore_and_wait(const std::vector<SavedGpu>& to_restore);
  void report_what_stays_changed(const std::vector<int>& hanging);
  Status open_clock_socket();

  Status check_readable(const Peer& peer, int gpu, bool control_will_do) const;
  NodeLeases::ProvenOf proven() const;
  Lease view(const LeaseEntry& lease) const;
  /// Takes or grows a lease by one event, watching its process where that ends it.
  Result<Lease> grant(const Peer& peer, bool ends_with_process,
                      const std::function<Result<LeaseEntry>(Instant)>& event);

  // With the lock of the leases held.
  /// Does what events ask for. Fails where something could not be written to the audit log that has
  /// to be. `done` once everything of the leases that ended is back.
  Status perform(const Done<std::monostate>& done = nullptr) HARPE_REQUIRES(mutex_);
  void restore(const LeaseEntry& lease, const Done<std::monostate>& done) HARPE_REQUIRES(mutex_);
  void tick() HARPE_REQUIRES(mutex_);

  // Without it.
  Result<Holder> holder_of(const Peer& peer, const std::string& lease, int gpu, Control control);
  void end_lease(const std::string& lease, LeaseEnd why);

  // On the loop's thread.
  void watch(const std::string& lease, ProcessWatch process);
  void unwatch_ended();
  /// Does what is due, and has itself called when something is again.
  void keep_house();
  /// Has it called soon. From any thread.
  void call_house_keeper();

  void add_event(const std::string& text) const;
  void heard(int gpu, const GpuReading& reading);

  const Policy policy_;
  const ControllerOptions options_;
  Clock& clock_;
  Counters counters_;
  AuditLog audit_;
  StateFile state_;
  bool last_stopped_ = false;    ///< the agent before ended in order
  std::vector<UniqueFd> locks_;  ///< of the state file
  GpuLocks gpu_locks_;
  std::vector<GpuIdentity> identities_;
  std::unique_ptr<GpuProver> prover_;
  Instant next_proof_;  ///< the loop's thread only

  mutable Mutex events_mutex_;
  mutable std::vector<std::string> events_ HARPE_GUARDED_BY(events_mutex_);
  bool silent_ HARPE_GUARDED_BY(events_mutex_) = false;  ///< `on_event` is not called any more

  mutable Mutex mutex_;  ///< of the leases
  std::unique_ptr<NodeLeases> leases_ HARPE_PT_GUARDED_BY(mutex_);

  Mutex listeners_mutex_;
  std::vector<std::weak_ptr<Listener>> listeners_ HARPE_GUARDED_BY(listeners_mutex_);

  std::vector<std::unique_ptr<GpuOwner>> owners_;
  std::unique_ptr<CpuOwner> cpus_;
  ServerLoop loop_;
  std::atomic<bool> house_keeper_called_ = false;
  std::optional<DueTimer> house_keeping_due_;
  std::map<std::string, WatchedProcess> watches_;  ///< by lease; the loop's thread only
  std::unique_ptr<ClockListener> clock_listener_;
  std::thread loop_thread_;
};

}  // namespace harpe
