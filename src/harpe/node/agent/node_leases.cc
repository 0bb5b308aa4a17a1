#include "harpe/node/agent/node_leases.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "harpe/node/agent/setting_checks.h"

namespace harpe::node {
namespace {

/// Returns true if the peer is root.
bool is_root(const net::Peer& peer) {
  return peer.uid == 0;
}

}  // namespace

const char* action_of(LeaseEnd end) {
  constexpr std::array kActions{"release",    "expire",  "process_ended", "channel_closed",
                                "right_lost", "release", "agent_stops"};
  return kActions.at(static_cast<std::size_t>(end));
}

NodeLeases::NodeLeases(std::vector<GpuIdentity> gpus, Policy policy, LeaseLimits limits,
                       std::function<std::string()> new_id)
    : gpus_(std::move(gpus)),
      policy_(std::move(policy)),
      limits_(limits),
      book_(static_cast<int>(gpus_.size()), std::move(new_id)) {}

// --- Permissions.

Status NodeLeases::check_gpu(int gpu, std::size_t gpus) {
  if (gpu >= 0 && gpu < static_cast<int>(gpus)) return ok_status();
  return Error::of(ErrorCode::kNotFound, "there is no GPU " + std::to_string(gpu) +
                                             "; this node has " + std::to_string(gpus) +
                                             " (harpe devices)");
}

NodeLeases::Right NodeLeases::right(const net::Peer& peer, int gpu, const ProvenOf& proven) const {
  const GpuIdentity& identity = gpus_[static_cast<std::size_t>(gpu)];
  const Proofs wanted = policy_.required(peer, identity);
  Right right;
  if (!wanted.empty()) right.proven = proven(peer, gpu, wanted);
  right.allowance = policy_.allowance(peer, identity, right.proven);
  return right;
}

Result<NodeLeases::Term> NodeLeases::term(const net::Peer& peer, const std::vector<int>& gpus,
                                          const ProvenOf& proven) const {
  Term term{.longest = Seconds{1e9}, .proven = {}};
  for (const int gpu : gpus) {
    HARPE_TRY(check_gpu(gpu, gpus_.size()));
    const Right here = right(peer, gpu, proven);
    const GpuIdentity& identity = gpus_[static_cast<std::size_t>(gpu)];
    const std::string name = "GPU " + std::to_string(gpu);
    if (!here.allowance.may_control()) {
      const Proofs wanted = policy_.required(peer, identity);
      return Error::of(ErrorCode::kNoPermission,
                       "the policy does not allow " + text_of(peer) + " to set anything on " +
                           name + (wanted.empty() ? "" : " unless " + text_of(wanted)));
    }
    if (identity.is_mig) {
      return Error::of(ErrorCode::kNotSupported,
                       name +
                           " is divided into MIG instances, which share one clock and one power "
                           "limit: it cannot be set for one of them");
    }
    term.longest = std::min(term.longest, here.allowance.max_lease);
    if (!here.proven.empty()) term.proven[gpu] = here.proven;
  }
  return term;
}

Status NodeLeases::check_limits(const net::Peer& peer, Instant now) {
  const auto held = std::ranges::count_if(
      book_.leases(), [&](const LeaseEntry& lease) { return same_user(lease.holder, peer); });
  if (static_cast<std::size_t>(held) >= limits_.per_user) {
    return Error::of(ErrorCode::kUnavailable,
                     "you hold " + std::to_string(held) +
                         " leases, which is the limit of one user: release "
                         "some (GET /v1/leases)");
  }
  const auto rate = rates_.find(named_user_of(peer));
  if (rate == rates_.end() || rate->second.wait(now).value <= 0) return ok_status();
  const int seconds = static_cast<int>(rate->second.wait(now).value) + 1;
  return Error::of(ErrorCode::kUnavailable, "you take leases too often: try again in " +
                                                std::to_string(seconds) +
                                                " s, and renew a lease instead of taking another");
}

void NodeLeases::count_taken(const net::Peer& peer, Instant now) {
  if (is_root(peer)) return;
  std::erase_if(rates_, [now](const auto& entry) { return entry.second.is_full(now); });
  rates_.try_emplace(named_user_of(peer), limits_.per_second, limits_.at_once)
      .first->second.take(now);
}

Result<Holder> NodeLeases::holder(const net::Peer& peer, const std::string& id, int gpu,
                                  Control control, Instant now) const {
  HARPE_TRY(check_gpu(gpu, gpus_.size()));
  const auto lease = HARPE_TRY(book_.usable(peer, id, now));
  if (!std::ranges::binary_search(lease.gpus, gpu)) {
    return Error::of(ErrorCode::kConflict,
                     "the lease holds " + list_of(lease.gpus) + ", not GPU " + std::to_string(gpu));
  }
  if (!lease.controls.has(control)) {
    return Error::of(ErrorCode::kConflict, "the lease is for " + text_of(lease.controls) +
                                               ", not for " + text_of(Controls{control}));
  }
  Holder found = holder(lease, gpu);
  found.peer.pid = peer.pid;
  return found;
}

Holder NodeLeases::holder(const LeaseEntry& lease, int gpu) const {
  const auto proven = lease.proven.find(gpu);
  return {lease.holder, lease.id,
          policy_.allowance(lease.holder, gpus_[static_cast<std::size_t>(gpu)],
                            proven == lease.proven.end() ? Proofs() : proven->second),
          lease.controls, lease.expiry};
}

bool NodeLeases::has_proven() const {
  return std::ranges::any_of(book_.leases(),
                             [](const LeaseEntry& lease) { return !lease.proven.empty(); });
}

// --- Audit lines.

AuditEntry NodeLeases::line(const net::Peer& peer, const char* action, const std::string& lease,
                            const std::vector<int>& gpus, std::string result) const {
  return {.action = action,
          .peer = peer,
          .lease = lease,
          .to = gpus.empty() ? "" : list_of(gpus),
          .result = std::move(result)};
}

Result<LeaseEntry> NodeLeases::noted(const net::Peer& peer, const std::vector<int>& gpus,
                                     Result<LeaseEntry> lease) {
  if (!lease.ok()) {
    effects_.refused.push_back(line(peer, "take", "", gpus, "refused: " + lease.error().text()));
  }
  return lease;
}

void NodeLeases::refused(const net::Peer& peer, const std::string& lease, const std::string& what,
                         const Error& error) {
  AuditEntry entry = line(peer, "refused", lease, {}, "refused: " + error.text());
  entry.to = what;
  effects_.refused.push_back(std::move(entry));
}

void NodeLeases::ended(LeaseEntry lease, LeaseEnd why) {
  if (why != LeaseEnd::kNotLogged) {
    effects_.log.push_back(line(lease.holder, action_of(why), lease.id, lease.gpus, "applied"));
  }
  effects_.ended.push_back({std::move(lease), why});
}

LeaseEffects NodeLeases::take_effects() {
  return std::exchange(effects_, {});
}

// --- Events.

Result<LeaseEntry> NodeLeases::grant(const net::Peer& peer, const LeaseBook::Request& request,
                                     const Term& term, const ProvenOf& proven, Instant now) {
  const auto may_see = [&](int gpu) {
    if (is_root(peer)) return true;
    const Allowance allowed = right(peer, gpu, proven).allowance;
    return allowed.read || allowed.may_control();
  };
  const LeaseEntry* known = request.implied ? book_.implied(peer) : nullptr;
  const std::vector<int> before = known == nullptr ? std::vector<int>() : known->gpus;
  if (known == nullptr) {
    HARPE_TRY(check_limits(peer, now));
  }
  auto lease = known == nullptr ? book_.take(peer, request, now, may_see)
                                : book_.extend(peer, known->id, request, now, may_see);
  if (!lease.ok()) return lease;
  book_.set_proven(lease->id, term.proven);
  lease->proven = term.proven;
  effects_.expiry = true;
  if (known == nullptr) {
    count_taken(peer, now);
    ++effects_.taken;
  }
  std::vector<int> added;
  std::ranges::set_difference(lease->gpus, before, std::back_inserter(added));
  if (!added.empty()) {
    effects_.log.push_back(
        line(peer, before.empty() ? "take" : "extend", lease->id, added, "applied"));
  }
  return lease;
}

Result<LeaseEntry> NodeLeases::take(const net::Peer& peer, const LeaseRequest& request,
                                    const ProvenOf& proven, Instant now) {
  tick(now);
  const auto allowed = term(peer, request.gpus, proven);
  if (!allowed.ok()) return noted(peer, request.gpus, allowed.error());
  const Seconds duration = std::min(request.duration, allowed->longest);
  return noted(peer, request.gpus,
               grant(peer, {request.gpus, duration, request.name, false, request.controls},
                     *allowed, proven, now));
}

Result<LeaseEntry> NodeLeases::take_implied(const net::Peer& peer, std::vector<int> gpus,
                                            const ProvenOf& proven, Instant now) {
  tick(now);
  std::ranges::sort(gpus);
  gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());
  std::vector<int> all = gpus;
  if (const LeaseEntry* known = book_.implied(peer)) {
    all.insert(all.end(), known->gpus.begin(), known->gpus.end());
  }
  // An added GPU does not extend the lease of the others beyond the policy.
  const auto allowed = term(peer, all, proven);
  if (!allowed.ok()) return noted(peer, gpus, allowed.error());
  return noted(peer, gpus,
               grant(peer, {gpus, allowed->longest, "implied", true}, *allowed, proven, now));
}

Status NodeLeases::renew(const net::Peer& peer, const std::string& id, Seconds duration,
                         const ProvenOf& proven, Instant now) {
  tick(now);
  const auto lease = HARPE_TRY(book_.usable(peer, id, now));
  const auto allowed = HARPE_TRY(term(peer, lease.gpus, proven));
  Status status = book_.renew(peer, id, std::min(duration, allowed.longest), now);
  if (!status.ok()) return status;
  book_.set_proven(id, allowed.proven);
  effects_.expiry = true;
  return status;
}

Status NodeLeases::release(const net::Peer& peer, const std::string& id, Instant now) {
  tick(now);
  const auto lease = book_.usable(peer, id, now);
  if (!lease.ok() && (!is_root(peer) || book_.find(id) == nullptr)) return lease.error();
  end(id, LeaseEnd::kReleased, now);
  return ok_status();
}

void NodeLeases::end(const std::string& id, LeaseEnd why, Instant now) {
  tick(now);
  auto lease = book_.remove(id);
  if (lease) ended(*std::move(lease), why);
}

void NodeLeases::tick(Instant now) {
  for (LeaseEntry& lease : book_.remove_expired(now)) ended(std::move(lease), LeaseEnd::kExpired);
}

void NodeLeases::check_rights(const ProvenOf& proven, Instant now) {
  tick(now);
  std::vector<std::string> lost;
  for (const LeaseEntry& lease : book_.leases()) {
    const bool holds = std::ranges::all_of(lease.proven, [&](const auto& entry) {
      return proven(lease.holder, entry.first, entry.second) == entry.second;
    });
    if (!holds) lost.push_back(lease.id);
  }
  for (const std::string& id : lost) end(id, LeaseEnd::kRightLost, now);
}

void NodeLeases::stop(Instant now) {
  tick(now);
  for (LeaseEntry& lease : book_.remove_all()) ended(std::move(lease), LeaseEnd::kAgentStops);
}

}  // namespace harpe::node
