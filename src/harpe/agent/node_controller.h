#pragma once
/// \file
/// The controller of a node (controller.h): the book of leases, the owners of its GPUs, and a
/// thread that watches what ends leases. This header is private to the room.
///
/// Order of locks: that of the book, then those of queues. What ends a lease is queued to the
/// owners under the lock of the book, so that no later lease's setting comes before it.

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "harpe/agent/audit_log.h"
#include "harpe/agent/clock_listener.h"
#include "harpe/agent/controller.h"
#include "harpe/agent/counters.h"
#include "harpe/agent/cpu_owner.h"
#include "harpe/agent/event_loop.h"
#include "harpe/agent/gpu_owner.h"
#include "harpe/agent/lease_book.h"
#include "harpe/agent/process_watch.h"
#include "harpe/agent/saved_state.h"

namespace harpe {

class NodeController final : public Controller {
 public:
  NodeController(Policy policy, ControllerOptions options, Clock& clock);
  /// Leaves everything behind where a driver's call hangs: its thread still works with it.
  static void operator delete(NodeController* controller, std::destroying_delete_t how);
  static void* operator new(std::size_t size);
  /// Opens files, starts threads, puts back what is left. Once, before all else.
  Status begin(Devices devices);

  std::vector<std::string> notices() const override;
  Status reopen_audit_log() override { return audit_.reopen(); }
  const std::vector<GpuIdentity>& gpus() const override { return identities_; }
  const Policy& policy() const override { return policy_; }
  int cpus() const override { return cpus_ == nullptr ? 0 : cpus_->count(); }

  Result<Lease> take(const Peer& peer, const LeaseRequest& request) override;
  Status renew(const Peer& peer, const std::string& lease, Seconds duration) override;
  void release(const Peer& peer, const std::string& lease, Done<std::monostate> done) override;
  std::vector<Lease> leases(const Peer& peer) const override;
  std::vector<Lease> holders(const Peer& peer, int gpu) const override;
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
  enum class End : unsigned char {
    kReleased,
    kExpired,
    kProcessEnded,
    kChannelClosed,
    kAgentStops
  };

  /// What destruction begins with: false where a driver's call hangs.
  bool end();
  Status lock_state_file();
  Status open_files(std::vector<SavedGpu>& to_restore);
  void start_owners(Devices devices, const std::vector<SavedGpu>& to_restore);
  void notice_unknown_gpus();
  void put_back_and_wait(const std::vector<SavedGpu>& to_restore);
  void notice_what_stays_changed(const std::vector<int>& hanging);
  Status open_clock_socket();

  Result<Seconds> longest_lease(const Peer& peer, const std::vector<int>& gpus) const;
  Result<Lease> grant(const Peer& peer, const LeaseBook::Wish& wish, bool ends_with_process);
  /// Writes a refusal to the audit log; it stands whether or not that can be written.
  Result<Lease> logged(const Peer& peer, const std::vector<int>& gpus, Result<Lease> lease) const;
  Result<Holder> holder_of(const Peer& peer, const std::string& lease, int gpu,
                           Control control) const;
  Result<Holder> holder_of_locked(const Peer& peer, const std::string& lease, int gpu,
                                  Control control) const;
  Holder holder_of(const LeaseEntry& lease, int gpu) const;
  Lease view(const LeaseEntry& lease) const;
  Status check_gpu(int gpu) const;
  Status check_readable(const Peer& peer, int gpu, bool control_will_do) const;

  /// With the lock of the book held. `done` once all GPUs are back.
  void end_locked(const LeaseEntry& lease, End why, Done<std::monostate> done = nullptr) const;
  void expire_locked() const;
  void end_lease(const std::string& lease, End why);
  void watch(const std::string& lease, ProcessWatch process);
  void set_expiry_timer();
  void unwatch_ended();

  Status log(const Peer& peer, const char* action, const std::string& lease, const std::string& to,
             const std::string& result) const;
  void notice(const std::string& text) const;
  void heard(int gpu, const GpuReading& reading);

  const Policy policy_;
  const ControllerOptions options_;
  Clock& clock_;
  mutable Counters counters_;
  mutable AuditLog audit_;
  StateFile state_;
  bool last_stopped_ = false;  ///< the agent before ended in order
  UniqueFd state_lock_;
  std::vector<GpuIdentity> identities_;

  mutable std::mutex notices_mutex_;
  mutable std::vector<std::string> notices_;
  bool silent_ = false;  ///< nobody hears notices any more

  mutable std::mutex mutex_;  ///< of the book
  mutable LeaseBook book_{0, nullptr};

  std::mutex listeners_mutex_;
  std::vector<std::weak_ptr<Listener>> listeners_;

  std::vector<std::unique_ptr<GpuOwner>> owners_;
  std::unique_ptr<CpuOwner> cpus_;
  mutable EventLoop loop_;
  std::map<std::string, ProcessWatch> watches_;  ///< by lease; the loop's thread only
  std::unique_ptr<ClockListener> clock_listener_;
  std::thread loop_thread_;
};

}  // namespace harpe
