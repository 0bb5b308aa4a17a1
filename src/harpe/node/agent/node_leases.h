#pragma once
/// \file
/// The leases of a node as a state machine: events go in with the time, what has to be done comes
/// out. It has no threads, files, devices or clock, so that a life can be replayed from its events.
///
/// Invariants: those of the book (lease_book.h); a lease is only ever for what the policy allows
/// its holder to set; every lease that is granted ends in exactly one `Ended`, whose controls are
/// restored on each of its GPUs before a later lease sets anything there.
///
/// Limits: a user holds at most `LeaseLimits::per_user` leases and takes so many a second, so that
/// neither the book nor the audit log grows without end. Root is exempt from the rate.
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

/// Why a lease ends.
enum class LeaseEnd : unsigned char {
  kReleased,
  kExpired,
  kProcessEnded,
  kChannelClosed,
  kRightLost,  ///< what the policy requires of client and GPU does not hold any more
  kNotLogged,  ///< it could not be written to the audit log, and never was in force
  kAgentStops
};
/// "release", "expire", ...: what the audit log calls it.
const char* action_of(LeaseEnd end);

/// What has to be done after an event, in this order.
struct LeaseEffects {
  struct Ended {
    LeaseEntry lease;
    LeaseEnd why = LeaseEnd::kReleased;
  };
  std::vector<Ended> ended;         ///< to be restored
  std::vector<AuditEntry> log;      ///< to be written
  std::vector<AuditEntry> refused;  ///< to be gathered
  int taken = 0;                    ///< new leases
  bool expiry = false;              ///< the next one may be at another time
};

class NodeLeases {
 public:
  /// What is proven of a peer and a GPU; asked only for what the policy requires.
  using ProvenOf = std::function<Proofs(const net::Peer& peer, int gpu, Proofs wanted)>;

  /// \param new_id  makes an identifier that cannot be guessed and that was never made before.
  NodeLeases(std::vector<GpuIdentity> gpus, Policy policy, LeaseLimits limits,
             std::function<std::string()> new_id);

  // Events. What they refuse is in the effects as well.
  Result<LeaseEntry> take(const net::Peer& peer, const LeaseRequest& request,
                          const ProvenOf& proven, Instant now);
  /// The lease of this peer's process, made or grown to hold these GPUs; each of its GPUs' policies
  /// bounds how long it lasts.
  Result<LeaseEntry> take_implied(const net::Peer& peer, std::vector<int> gpus,
                                  const ProvenOf& proven, Instant now);
  Status renew(const net::Peer& peer, const std::string& id, Seconds duration,
               const ProvenOf& proven, Instant now);
  /// Root may end any.
  Status release(const net::Peer& peer, const std::string& id, Instant now);
  /// Something ended it; nothing happens where it has ended before.
  void end(const std::string& id, LeaseEnd why, Instant now);
  /// Time has passed.
  void tick(Instant now);
  /// Ends those whose right is not proven any more.
  void check_rights(const ProvenOf& proven, Instant now);
  void stop(Instant now);
  /// Something was asked that is refused for lack of a lease.
  void refused(const net::Peer& peer, const std::string& lease, const std::string& what,
               const Error& error);

  /// What has gathered since the last call.
  LeaseEffects take_effects();

  // Views.
  const std::vector<GpuIdentity>& gpus() const { return gpus_; }
  const Policy& policy() const { return policy_; }
  const LeaseBook& book() const { return book_; }
  static Status check_gpu(int gpu, std::size_t gpus);
  /// On whose behalf a control is set: of a lease that this peer may use now, on this GPU, for this
  /// control.
  Result<Holder> holder(const net::Peer& peer, const std::string& id, int gpu, Control control,
                        Instant now) const;
  /// The holder of all controls of a lease on one of its GPUs.
  Holder holder(const LeaseEntry& lease, int gpu) const;
  /// Whether a lease stands on what must stay proven.
  bool has_proven() const;

 private:
  /// What this peer may do on a GPU, with what is proven.
  struct Right {
    Allowance allowance;
    Proofs proven;
  };
  Right right(const net::Peer& peer, int gpu, const ProvenOf& proven) const;
  /// How long a lease on all of these may last, and what is proven for it.
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
