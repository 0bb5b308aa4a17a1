#pragma once
/// \file
/// Ownership of jobs in a `SimulatedDatabase`: PostgresClaims, with the same statements.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "harpe/training/store/simulated_lease_testing.h"
#include "harpe/training/store/simulated_session_testing.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

/// Not thread-safe.
class SimulatedClaims {
 public:
  /// \param lease  null if nothing is claimed; must outlive this
  SimulatedClaims(SimulatedSession& session, SimulatedLease* lease)
      : session_(session), lease_(lease) {}

  /// See Store. The session is connected.
  Result<std::optional<JobClaim>> claim(const std::string& job) {
    if (lease_ == nullptr) return Error::invalid("a store without a URL cannot claim jobs");
    const SimulatedLease::Member me = lease_->member();
    if (me.server.empty()) {
      return Error::of(ErrorCode::kUnavailable,
                       "this server has lost its lease and has not joined the others again yet");
    }
    const auto found = row(job);
    if (!found.ok()) return found.error();
    Owner mine{.server = me.server, .epoch = 1};
    if (*found) {
      const Row& before = **found;
      const bool already_mine = before.owner.server == me.server && before.server;
      if (already_mine && !doubtful_.contains(job)) {
        owned_[job] = before.owner;
        return std::optional(JobClaim{.epoch = before.owner.epoch, .tenure = me.tenure});
      }
      const bool free = HARPE_TRY(already_mine ? true : is_free(before));
      if (!free) return std::optional<JobClaim>();
      mine.epoch = before.owner.epoch + 1;
    }
    const Result<bool> claimed =
        session_.run(StoreCall::Kind::kClaim, [job, found = *found, mine](SimulatedTables& tables) {
          return found ? tables.replace_owner(job, found->owner, mine.server)
                       : tables.add_owner(job, mine.server);
        });
    if (!claimed.ok()) return claimed.error();
    if (!*claimed) return std::optional<JobClaim>();
    owned_[job] = mine;
    doubtful_.erase(job);
    return std::optional(JobClaim{.epoch = mine.epoch, .tenure = me.tenure});
  }

  Status release(const std::string& job) {
    const auto had = owned_.find(job);
    if (had == owned_.end()) return ok_status();
    doubt(job);
    const auto cleared = session_.run(StoreCall::Kind::kRelease,
                                      [job, owner = had->second](SimulatedTables& tables) {
                                        tables.release(job, owner);
                                        return std::monostate();
                                      });
    if (!cleared.ok()) return cleared.error();
    forget(job);
    return ok_status();
  }

  Result<std::optional<JobOwner>> owner(const std::string& job) {
    const auto found = HARPE_TRY(row(job));
    if (!found || !found->server) return std::optional<JobOwner>();
    const Row& owner = *found;
    if (lease_ != nullptr && owner.owner.server == lease_->member().server) {
      return std::optional(JobOwner{.url = owner.server->url, .own = true});
    }
    const bool free = HARPE_TRY(is_free(owner));
    if (free) return std::optional<JobOwner>();
    return std::optional(JobOwner{.url = owner.server->url, .own = false});
  }

  Result<std::map<std::string, std::string>> owners() {
    return session_.run(StoreCall::Kind::kReadOwners,
                        [](SimulatedTables& tables) { return tables.owners(); });
  }
  Result<std::vector<std::string>> ownerless() {
    return session_.run(StoreCall::Kind::kReadOwners,
                        [](SimulatedTables& tables) { return tables.ownerless(); });
  }

  /// Returns true if this store may change the job. Call within a transaction.
  /// \param epoch  of the claim that makes the change; nullopt: the last claim, or no owner
  bool fence(const SimulatedTables& tables, const std::string& job,
             std::optional<std::int64_t> epoch) const {
    const std::optional<Owner> owner = tables.owner(job);
    if (!owner || owner->server.empty()) return !epoch.has_value();
    const auto had = owned_.find(job);
    return had != owned_.end() && had->second.server == owner->server &&
           epoch.value_or(had->second.epoch) == owner->epoch;
  }

  /// Call before a request that releases the job. It may be executed at any time until its answer
  /// arrives, even if it seems lost. A claim then raises the epoch, so that the request fails.
  void doubt(const std::string& job) { doubtful_.insert(job); }
  /// Call after the job was released.
  void forget(const std::string& job) {
    owned_.erase(job);
    doubtful_.erase(job);
  }

 private:
  using Owner = SimulatedTables::Owner;
  /// A row of owners, with its server if that exists.
  struct Row {
    Owner owner;
    std::optional<SimulatedTables::Server> server;
  };

  Result<std::optional<Row>> row(const std::string& job) {
    return session_.run(StoreCall::Kind::kReadOwner, [&](SimulatedTables& tables) {
      std::optional<Row> found;
      if (auto owner = tables.owner(job)) {
        found = Row{.owner = *owner, .server = tables.server(owner->server)};
      }
      return found;
    });
  }

  /// Returns true if no server owns the job. Removes an owner whose lease is over.
  Result<bool> is_free(const Row& row) {
    if (!row.server) return true;
    if (lease_ == nullptr) return false;
    return lease_->remove_if_over(session_, row.owner.server, *row.server);
  }

  SimulatedSession& session_;
  SimulatedLease* lease_;
  std::map<std::string, Owner> owned_;
  std::set<std::string> doubtful_;
};

}  // namespace harpe::training
