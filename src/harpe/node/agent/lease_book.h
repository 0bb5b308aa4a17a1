#pragma once
/// \file
/// The table of leases: the GPUs that each lease holds, and its expiry. Pure: every call receives
/// the time, and there is no input or output.
///
/// Invariants: at most one user holds a GPU, and at most one lease each of its controls. A lease
/// holds at least one GPU. A lease is usable only before its expiry, by the user who took it. A
/// breach ends the program, because a GPU set by two users would be restored for neither. An
/// implied lease of a local process renews itself and ends with the process. Not thread-safe. Each
/// call is O(leases x GPUs); a GPU has four controls, so it has at most four leases.

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

/// Returns true if both peers are the same local user, or hold tokens for the same subject.
bool same_user(const net::Peer& a, const net::Peer& b);
/// Returns the peer as text: "uid 1000, pid 4242", "token 'grafana'".
std::string text_of(const net::Peer& peer);

/// The expiry of a lease, in nanoseconds of the clock, for threads that serve the lease without
/// access to the book. Renewing the lease updates it, ending the lease sets it to 0.
using LeaseExpiry = std::shared_ptr<std::atomic<std::int64_t>>;

struct LeaseEntry {
  std::string id;
  net::Peer holder;
  std::vector<int> gpus;  ///< GPUs in ascending order
  std::string name;
  Seconds duration;  ///< duration last granted; an implied lease renews itself by it
  Instant expires;
  bool implied = false;               ///< true if taken for a client without leases
  Controls controls;                  ///< controls held on each GPU
  std::map<int, Proofs> proven = {};  ///< proofs that the lease depends on, by GPU, if any
  LeaseExpiry expiry = {};            ///< shared copy of `expires`

  /// Returns true if the lease is implied, so that its client cannot renew it, and the end of its
  /// process is detected. False for network clients and if the kernel does not report the process.
  bool renews_itself() const { return implied && holder.pid > 0; }
};

class LeaseBook {
 public:
  /// \param new_id  returns a new identifier that is unique and that no client can guess.
  LeaseBook(int gpus, std::function<std::string()> new_id);

  struct Request {
    std::vector<int> gpus;
    Seconds duration;
    std::string name;
    bool implied = false;
    Controls controls = {};
  };
  /// Grants all GPUs of the request or none. Fails with `kNotFound` (no such GPU), `kInvalidInput`
  /// (no GPU, a duplicate, no control, no duration) or `kConflict` (another user holds a GPU, or
  /// another lease of this user one of the controls; names the holder if it is this user or
  /// `may_see(gpu)`). Never changes an existing lease.
  Result<LeaseEntry> take(const net::Peer& peer, const Request& request, Instant now,
                          const std::function<bool(int gpu)>& may_see);
  /// Adds GPUs to a lease, all or none, and renews it. The request has the lease's controls.
  Result<LeaseEntry> extend(const net::Peer& peer, const std::string& id, const Request& request,
                            Instant now, const std::function<bool(int gpu)>& may_see);
  /// Sets the proofs that a lease depends on.
  void set_proven(const std::string& id, std::map<int, Proofs> proven);
  /// Sets the expiry of a lease to `duration` from now.
  Status renew(const net::Peer& peer, const std::string& id, Seconds duration, Instant now);
  /// Returns the lease if this peer may use it now. Fails with `kNotFound` for all other peers, so
  /// that they cannot detect the lease.
  Result<LeaseEntry> usable(const net::Peer& peer, const std::string& id, Instant now) const;

  /// Removes a lease and returns it; nullopt if there is none.
  std::optional<LeaseEntry> remove(const std::string& id);
  /// Removes and returns the leases that have expired, and renews those that renew themselves.
  std::vector<LeaseEntry> remove_expired(Instant now);
  /// Removes and returns all leases.
  std::vector<LeaseEntry> remove_all();

  const std::vector<LeaseEntry>& leases() const { return leases_; }
  const LeaseEntry* find(const std::string& id) const;
  /// Returns the leases on this GPU, which all belong to one user.
  std::vector<const LeaseEntry*> holders(int gpu) const;
  /// Returns the implied lease of this peer's process; null if there is none.
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
