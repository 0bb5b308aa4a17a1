#pragma once
/// \file
/// The controller of a node (controller.h): the owners of its GPUs, its leases (lease_keeper.h),
/// and a thread that watches for events that end leases. This header is private to the room.

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/device/hw/device.h"
#include "harpe/net/http/server_loop.h"
#include "harpe/node/agent/audit_log.h"
#include "harpe/node/agent/clock_listener.h"
#include "harpe/node/agent/controller.h"
#include "harpe/node/agent/due_timer.h"
#include "harpe/node/agent/gpu_owner.h"
#include "harpe/node/agent/gpu_proof.h"
#include "harpe/node/agent/lease_keeper.h"
#include "harpe/node/agent/node_state.h"

namespace harpe::node {

/// The thread that reads the energy of CPUs. All CPUs share one queue, because a reading takes
/// microseconds.
class CpuOwner {
 public:
  explicit CpuOwner(std::vector<std::unique_ptr<Cpu>> cpus);
  CpuOwner(const CpuOwner&) = delete;
  CpuOwner& operator=(const CpuOwner&) = delete;
  /// Serves all queued requests, then ends the thread.
  ~CpuOwner();

  int count() const { return static_cast<int>(cpus_.size()); }
  void read(int cpu, Done<CpuEnergy> done);

 private:
  void run();

  std::vector<std::unique_ptr<Cpu>> cpus_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::pair<int, Done<CpuEnergy>>> queue_ HARPE_GUARDED_BY(mutex_);
  bool stopping_ HARPE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

/// Listeners to the power of GPUs. Owners poll power only while there is a listener. Thread-safe.
class PowerListeners {
 public:
  /// \param owners  owners of all GPUs by index; must outlive this, and be complete before `add`
  PowerListeners(const std::vector<std::unique_ptr<GpuOwner>>& owners, Clock& clock)
      : owners_(owners), clock_(clock) {}

  /// As `Controller::listen`.
  std::shared_ptr<void> add(std::function<void(int, const GpuReading&)> heard);
  /// Called on the thread of the GPU's owner.
  void hear(int gpu, const GpuReading& reading);

 private:
  struct Listener;

  const std::vector<std::unique_ptr<GpuOwner>>& owners_;
  Clock& clock_;
  Mutex mutex_;
  std::vector<std::weak_ptr<Listener>> listeners_ HARPE_GUARDED_BY(mutex_);
};

class NodeController final : public Controller {
 public:
  NodeController(Policy policy, ControllerOptions options, Clock& clock);
  /// Leaks the controller if a driver call hangs, because the thread of the call still uses it.
  static void operator delete(NodeController* controller, std::destroying_delete_t how);
  static void* operator new(std::size_t size);
  /// Opens files, starts threads, and restores settings left changed. Call once, before all else.
  Status begin(Devices devices);

  std::vector<std::string> events() const override { return events_.all(); }
  std::vector<std::string> troubles() const override;
  Status reopen_audit_log() override { return audit_.reopen(); }
  const std::vector<GpuIdentity>& gpus() const override { return identities_; }
  const Policy& policy() const override { return policy_; }
  int cpus() const override { return cpus_ == nullptr ? 0 : cpus_->count(); }

  Allowance allowance(const net::Peer& peer, int gpu) const override;
  Result<Lease> take(const net::Peer& peer, const LeaseRequest& request) override {
    return leases_->take(peer, request);
  }
  Status renew(const net::Peer& peer, const std::string& lease, Seconds duration) override {
    return leases_->renew(peer, lease, duration);
  }
  void release(const net::Peer& peer, const std::string& lease,
               Done<std::monostate> done) override {
    leases_->release(peer, lease, done);
  }
  std::vector<Lease> leases(const net::Peer& peer) override { return leases_->leases(peer); }
  std::vector<Lease> holders(const net::Peer& peer, int gpu) override;
  Result<Lease> implied_lease(const net::Peer& peer, const std::vector<int>& gpus) override {
    return leases_->implied_lease(peer, gpus);
  }
  void apply(const net::Peer& peer, const std::string& lease, int gpu, const Setting& setting,
             Done<Applied> done) override;
  void read(const net::Peer& peer, int gpu, Done<GpuReading> done) override;
  void power_limit_range(const net::Peer& peer, int gpu, Done<PowerLimitRange> done) override;
  void supported_clocks(const net::Peer& peer, int gpu, ClockDomain domain,
                        Done<std::vector<Megahertz>> done) override;
  void read_cpu(const net::Peer& peer, int cpu, Done<CpuEnergy> done) override;
  std::shared_ptr<void> listen(std::function<void(int, const GpuReading&)> heard) override {
    return listeners_.add(std::move(heard));
  }
  Counts counts() const override;

 private:
  /// Ends all leases and threads before the destruction. Returns false if a driver call hangs.
  bool end();
  void start_owners(Devices devices);
  Status open_clock_socket();

  Status check_readable(const net::Peer& peer, int gpu, bool control_will_do) const;

  /// Runs all work that is due and schedules its next call. On the loop's thread.
  void keep_house();
  /// Schedules a call of `keep_house` at once. Thread-safe.
  void call_house_keeper();

  const Policy policy_;
  const ControllerOptions options_;
  Clock& clock_;
  AgentEvents events_;
  Counters counters_;
  AuditLog audit_;
  NodeState state_;
  std::vector<GpuIdentity> identities_;
  std::unique_ptr<GpuProver> prover_;
  PowerListeners listeners_;
  std::vector<std::unique_ptr<GpuOwner>> owners_;
  std::unique_ptr<CpuOwner> cpus_;
  net::ServerLoop loop_;
  std::atomic<bool> house_keeper_called_ = false;
  std::optional<DueTimer> house_keeping_due_;
  std::unique_ptr<LeaseKeeper> leases_;
  std::unique_ptr<ClockListener> clock_listener_;
  std::thread loop_thread_;
};

}  // namespace harpe::node
