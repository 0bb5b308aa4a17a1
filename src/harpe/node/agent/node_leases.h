#pragma once
/// \file
/// The leases of a node as a state machine. Its input is events with their times, its output the
/// effects to carry out. It has no threads, files, devices or clock, so events can be replayed.
///
/// Invariants. All invariants of the book (lease_book.h) hold. A lease only covers GPUs that the
/// policy lets its holder set. Every granted lease ends in exactly one `Ended`, whose controls are
/// restored on each of its GPUs before a later lease sets anything there.
///
/// Limits: `LeaseLimits` bounds the leases that a user holds and the rate of taking them, so that
/// the book and the audit log stay bounded. Root is exempt from the rate.
///
/// Not thread-safe. Each call is O(leases x GPUs).

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harpe/node/agent/audit_log.h"
#include "harpe/node/agent/controller.h"
#include "harpe/node/agent/gpu_control.h"
#include "harpe/node/agent/lease_book.h"
#include "harpe/node/agent/policy.h"
#include "harpe/node/agent/rate_limit.h"

namespace harpe::node {

/// Reasons for the end of a lease.
enum class LeaseEnd : unsigned char {
  kReleased,
  kExpired,
  kProcessEnded,
  kChannelClosed,
  kRightLost,  ///< a proof that the policy requires of client and GPU no longer holds
  kNotLogged,  ///< the lease could not be written to the audit log and never was in force
  kAgentStops
};
/// Returns the action in the audit log: "release", "expire", ...
const char* action_of(LeaseEnd end);

/// The effects of events, to be carried out in this order.
struct LeaseEffects {
  struct Ended {
    LeaseEntry lease;
    LeaseEnd why = LeaseEnd::kReleased;
  };
  std::vector<Ended> ended;         ///< leases to restore
  std::vector<AuditEntry> log;      ///< entries to write
  std::vector<AuditEntry> refused;  ///< refusals to gather
  int taken = 0;                    ///< number of new leases
  bool expiry = false;              ///< true if the time of the next expiry may have changed
};

class NodeLeases {
 public:
  /// Returns the proofs in `wanted` that hold for a peer and a GPU. Called only with proofs that
  /// the policy requires.
  using ProvenOf = std::function<Proofs(const net::Peer& peer, int gpu, Proofs wanted)>;

  /// \param new_id  returns a new identifier that is unique and cannot be guessed.
  NodeLeases(std::vector<GpuIdentity> gpus, Policy policy, LeaseLimits limits,
             std::function<std::string()> new_id);

  // Events. The effects include refusals.
  Result<LeaseEntry> take(const net::Peer& peer, const LeaseRequest& request,
                          const ProvenOf& proven, Instant now);
  /// Returns the lease of this peer's process, after taking it or extending it to these GPUs. Its
  /// duration is the shortest that the policy allows for any of its GPUs.
  Result<LeaseEntry> take_implied(const net::Peer& peer, std::vector<int> gpus,
                                  const ProvenOf& proven, Instant now);
  Status renew(const net::Peer& peer, const std::string& id, Seconds duration,
               const ProvenOf& proven, Instant now);
  /// Ends a lease at the request of its user or of root.
  Status release(const net::Peer& peer, const std::string& id, Instant now);
  /// Ends a lease for any reason. Does nothing if the lease has ended before.
  void end(const std::string& id, LeaseEnd why, Instant now);
  /// Ends the leases that have expired at `now`.
  void tick(Instant now);
  /// Ends leases with a proof that no longer holds.
  void check_rights(const ProvenOf& proven, Instant now);
  void stop(Instant now);
  /// Records the refusal of a request without a usable lease.
  void refused(const net::Peer& peer, const std::string& lease, const std::string& what,
               const Error& error);

  /// Returns the effects since the last call.
  LeaseEffects take_effects();

  // Views.
  const std::vector<GpuIdentity>& gpus() const { return gpus_; }
  const Policy& policy() const { return policy_; }
  const LeaseBook& book() const { return book_; }
  static Status check_gpu(int gpu, std::size_t gpus);
  /// Returns the holder for setting a control of a GPU under a lease. Fails unless this peer may
  /// use the lease now and the lease covers this GPU and control.
  Result<Holder> holder(const net::Peer& peer, const std::string& id, int gpu, Control control,
                        Instant now) const;
  /// Returns the holder of all controls of a lease on one of its GPUs.
  Holder holder(const LeaseEntry& lease, int gpu) const;
  /// Returns true if a lease depends on a proof.
  bool has_proven() const;

 private:
  /// The rights of a peer on a GPU, and the proofs they depend on.
  struct Right {
    Allowance allowance;
    Proofs proven;
  };
  Right right(const net::Peer& peer, int gpu, const ProvenOf& proven) const;
  /// The longest duration of a lease on several GPUs, and its proofs by GPU.
  struct Term {
    Seconds longest;
    std::map<int, Proofs> proven;
  };
  Result<Term> term(const net::Peer& peer, const std::vector<int>& gpus,
                    const ProvenOf& proven) const;
  Status check_limits(const net::Peer& peer, Instant now);
  void count_taken(const net::Peer& peer, Instant now);
  Result<LeaseEntry> grant(const net::Peer& peer, const LeaseBook::Request& request,
                           const Term& term, const ProvenOf& proven, Instant now);
  Result<LeaseEntry> noted(const net::Peer& peer, const std::vector<int>& gpus,
                           Result<LeaseEntry> lease);
  void ended(LeaseEntry lease, LeaseEnd why);
  AuditEntry line(const net::Peer& peer, const char* action, const std::string& lease,
                  const std::vector<int>& gpus, std::string result) const;

  const std::vector<GpuIdentity> gpus_;
  const Policy policy_;
  const LeaseLimits limits_;
  LeaseBook book_;
  std::map<std::string, RateLimit> rates_;  ///< by user
  LeaseEffects effects_;
};

}  // namespace harpe::node
