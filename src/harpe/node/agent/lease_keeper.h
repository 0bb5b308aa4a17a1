#pragma once
/// \file
/// The keeper of the leases of a node. It carries out the effects that their state machine
/// (node_leases.h) returns after each event, and watches for events that end leases.
///
/// Order of locks: the lock of the leases, then the locks of queues, logs and events. The end of a
/// lease is queued to the owners of its GPUs under the lock of the leases, so that it precedes
/// every setting of a later lease.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/net/http/server_loop.h"
#include "harpe/node/agent/audit_log.h"
#include "harpe/node/agent/controller.h"
#include "harpe/node/agent/gpu_owner.h"
#include "harpe/node/agent/gpu_proof.h"
#include "harpe/node/agent/node_leases.h"
#include "harpe/node/agent/process_watch.h"

namespace harpe::node {

/// Thread-safe. Destroy it before its loop, on the loop's thread or while the loop does not run.
class LeaseKeeper {
 public:
  /// Objects that must outlive the keeper.
  struct Services {
    const std::vector<std::unique_ptr<GpuOwner>>& owners;
    AuditLog& audit;
    Counters& counters;
    GpuProver& prover;
    net::ServerLoop& loop;
    Clock& clock;
    bool dry_run = false;
    /// Called on any thread if `keep` must run, possibly before the time it last returned.
    std::function<void()> keep_soon = {};
  };

  LeaseKeeper(NodeLeases leases, Services services)
      : services_(std::move(services)), leases_(std::move(leases)) {}

  Result<Lease> take(const net::Peer& peer, const LeaseRequest& request);
  Result<Lease> implied_lease(const net::Peer& peer, const std::vector<int>& gpus);
  Status renew(const net::Peer& peer, const std::string& lease, Seconds duration);
  /// Calls `done` once all settings of the lease are restored.
  void release(const net::Peer& peer, const std::string& lease, const Done<std::monostate>& done);
  void end(const std::string& lease, LeaseEnd why);
  /// Ends all leases.
  void stop();
  /// Logs a request that was refused because the peer has no lease.
  void refused(const net::Peer& peer, const std::string& lease, const std::string& what,
               const Error& error);

  /// Returns the leases that this peer may see.
  std::vector<Lease> leases(const net::Peer& peer);
  /// Returns the leases on a GPU without their ids.
  std::vector<Lease> holders(int gpu);
  /// Returns a lease that this peer may use now.
  Result<Lease> find(const net::Peer& peer, const std::string& lease);
  Result<Holder> holder(const net::Peer& peer, const std::string& lease, int gpu, Control control);
  /// Returns a slot that the owner of the GPU serves under this lease from now on.
  Result<std::shared_ptr<ClockSlot>> attach(const net::Peer& peer, const std::string& lease,
                                            int gpu);

  /// Ends leases that have expired or whose right is no longer proven. Returns the time of the next
  /// call, nullopt if there is nothing to wait for. On the loop's thread.
  std::optional<Instant> keep(Instant now);

 private:
  struct WatchedProcess {
    ProcessWatch process;
    std::shared_ptr<void> watch;
  };

  Instant now() const { return services_.clock.now(); }
  NodeLeases::ProvenOf proven() const;
  /// Takes or extends a lease by one event, and watches its process if the lease ends with it.
  Result<Lease> grant(const net::Peer& peer, bool ends_with_process,
                      const std::function<Result<LeaseEntry>(Instant)>& event);
  /// Carries out the effects of events. Fails if a required line of the audit log was not written.
  /// Calls `done` once all settings of a released lease are restored.
  Status perform(const Done<std::monostate>& done = nullptr) HARPE_REQUIRES(mutex_);
  void restore(const LeaseEntry& lease, const Done<std::monostate>& done) HARPE_REQUIRES(mutex_);
  void tick() HARPE_REQUIRES(mutex_);
  void watch(const std::string& lease, ProcessWatch process);
  void unwatch_ended();

  const Services services_;
  Mutex mutex_;
  NodeLeases leases_ HARPE_GUARDED_BY(mutex_);
  // On the loop's thread only.
  Instant next_proof_;
  std::map<std::string, WatchedProcess> watches_;  ///< by lease
};

}  // namespace harpe::node
