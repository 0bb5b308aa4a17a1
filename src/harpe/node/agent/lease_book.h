#pragma once
/// \file
/// Which lease holds which GPU, and until when: a pure table. Time comes in with every call,
/// nothing is read or written, nothing is set.
///
/// Invariants: a GPU is held by one user at most, each of its controls by one lease at most; a
/// lease holds at least one GPU; a lease is usable only before its expiry, by the user who took it.
/// A breach ends the program: a GPU that two users set would be restored for neither. A lease that
/// a local process is implied to hold renews itself: the end of the process ends it. Not
/// thread-safe. Each call is O(leases x GPUs); a GPU has four controls, so there are at most four
/// leases a GPU.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/node/agent/policy.h"
#include "harpe/node/node_client/lease.h"

namespace harpe::node {

/// Whether both are the same user: the same local user, or holders of tokens for one subject.
bool same_user(const net::Peer& a, const net::Peer& b);
/// "uid 1000, pid 4242", "token 'grafana'".
std::string text_of(const net::Peer& peer);

/// When a lease ends, for those who serve it without looking into the book: nanoseconds of the
/// clock. Renewing it moves it, ending it sets it to 0.
using LeaseExpiry = std::shared_ptr<std::atomic<std::int64_t>>;

struct LeaseEntry {
  std::string id;
  net::Peer holder;
  std::vector<int> gpus;  ///< rising
  std::string name;
  Seconds duration;  ///< as last granted; what an implied lease is renewed by
  Instant expires;
  bool implied = false;               ///< taken for a client that knows no leases
  Controls controls;                  ///< of each of its GPUs
  std::map<int, Proofs> proven = {};  ///< what its right stands on, by GPU; none: missing
  LeaseExpiry expiry = {};            ///< of `expires`

  /// Its client knows of no lease that it could renew, and the end of its process is seen. Not of
  /// clients of the network, nor where the kernel does not tell the process.
  bool renews_itself() const { return implied && holder.pid > 0; }
};

class LeaseBook {
 public:
  /// \param new_id  makes an identifier that no client can guess and that was never made before.
  LeaseBook(int gpus, std::function<std::string()> new_id);

  struct Request {
    std::vector<int> gpus;
    Seconds duration;
    std::string name;
    bool implied = false;
    Controls controls = {};
  };
  /// Grants all GPUs of the request or none. Fails with `kNotFound` (no such GPU), `kInvalidInput`
  /// (none, one twice, no control, no duration), `kConflict` (held by another client, or a control
  /// of it by this user; names the holder to the user itself and where `may_see(gpu)`). A lease
  /// that is there is never changed.
  Result<LeaseEntry> take(const net::Peer& peer, const Request& request, Instant now,
                          const std::function<bool(int gpu)>& may_see);
  /// Adds GPUs to a lease, all or none, and renews it. The request has the lease's controls.
  Result<LeaseEntry> extend(const net::Peer& peer, const std::string& id, const Request& request,
                            Instant now, const std::function<bool(int gpu)>& may_see);
  /// What its right stands on from now on.
  void set_proven(const std::string& id, std::map<int, Proofs> proven);
  /// Lasts `duration` from now.
  Status renew(const net::Peer& peer, const std::string& id, Seconds duration, Instant now);
  /// The lease, if this peer may use it now. Others learn nothing about it: `kNotFound`.
  Result<LeaseEntry> usable(const net::Peer& peer, const std::string& id, Instant now) const;

  /// Takes a lease out of the book; nullopt when it is not there.
  std::optional<LeaseEntry> remove(const std::string& id);
  /// Takes out the leases that have expired, and renews those that renew themselves.
  std::vector<LeaseEntry> remove_expired(Instant now);
  /// Takes out all.
  std::vector<LeaseEntry> remove_all();

  const std::vector<LeaseEntry>& leases() const { return leases_; }
  const LeaseEntry* find(const std::string& id) const;
  /// Those that hold this GPU: of one user.
  std::vector<const LeaseEntry*> holders(int gpu) const;
  /// The implied lease of this peer's process.
  const LeaseEntry* implied(const net::Peer& peer) const;
  std::optional<Instant> next_expiry() const;

 private:
  LeaseEntry* entry(const std::string& id);
  static void last(LeaseEntry& lease, Seconds duration, Instant now);
  static void expire(const LeaseEntry& lease);
  void check_held_once(const LeaseEntry& lease) const;
  Status check_request(const net::Peer& peer, const Request& request, const LeaseEntry* of,
                       Instant now, const std::function<bool(int gpu)>& may_see) const;

  int gpus_;
  std::function<std::string()> new_id_;
  std::vector<LeaseEntry> leases_;
};

}  // namespace harpe::node
