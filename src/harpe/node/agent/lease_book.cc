#include "harpe/node/agent/lease_book.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "harpe/base/check.h"
#include "harpe/base/text.h"

namespace harpe::node {
namespace {

Error no_such_lease() {
  return Error::of(ErrorCode::kNotFound,
                   "no such lease (it has ended, or is not yours); take a new one");
}

/// Returns a time for messages: "50 s", "3 min", "7 h 59 min".
std::string time_text(Seconds time) {
  const auto seconds = static_cast<long>(std::ceil(time.value));
  if (seconds < 120) return std::to_string(seconds) + " s";
  const long minutes = (seconds + 59) / 60;
  if (minutes < 120) return std::to_string(minutes) + " min";
  return std::to_string(minutes / 60) + " h " + std::to_string(minutes % 60) + " min";
}

std::string gpu_text(int gpu) {
  return "GPU " + std::to_string(gpu);
}

/// Returns a message with the holder of a GPU, the remaining time, and a remedy.
std::string held_text(int gpu, const LeaseEntry& lease, const net::Peer& peer, bool may_see,
                      Instant now) {
  const bool own = same_user(peer, lease.holder);
  if (!own && !may_see) {
    return gpu_text(gpu) + " is leased by another user; try again later, or ask the administrator";
  }
  std::string text = gpu_text(gpu) + " is leased by " + text_of(lease.holder);
  if (!lease.name.empty()) text += " (" + in_quotes(lease.name) + ")";
  if (lease.controls != Controls()) text += " to set its " + text_of(lease.controls);
  text += lease.renews_itself() ? " while its process runs"
                                : " for another " + time_text(lease.expires - now);
  if (own) {
    return text + "; that is you: use, renew or release that lease" +
           (lease.implied ? " by ending the process" : " (GET /v1/leases)");
  }
  return text + "; wait, or ask them to release it (root can)";
}

Status check_duration(Seconds duration) {
  // Nanoseconds of 292 years fit; no lease needs more than 31.
  if (duration.value > 0 && duration.value < 1e9) return ok_status();
  return Error::invalid("a lease must last more than 0 s");
}

}  // namespace

bool same_user(const net::Peer& a, const net::Peer& b) {
  if (a.uid >= 0 || b.uid >= 0) return a.uid == b.uid;
  return !a.token_subject.empty() && a.token_subject == b.token_subject;
}

std::string text_of(const net::Peer& peer) {
  if (peer.uid < 0) {
    return peer.token_subject.empty() ? "an unknown peer"
                                      : "token " + in_quotes(peer.token_subject);
  }
  std::string text = "uid " + std::to_string(peer.uid);
  if (peer.pid > 0) text += ", pid " + std::to_string(peer.pid);
  return text;
}

LeaseBook::LeaseBook(int gpus, std::function<std::string()> new_id)
    : gpus_(gpus), new_id_(std::move(new_id)) {}

Status LeaseBook::check_request(const net::Peer& peer, const Request& request, const LeaseEntry* of,
                                Instant now, const std::function<bool(int gpu)>& may_see) const {
  HARPE_TRY(check_duration(request.duration));
  if (request.gpus.empty()) return Error::invalid("a lease must name at least one GPU");
  if (request.controls.empty()) return Error::invalid("a lease must be for at least one control");
  Diagnostics held;
  for (std::size_t i = 0; i < request.gpus.size(); ++i) {
    const int gpu = request.gpus[i];
    if (gpu < 0 || gpu >= gpus_) {
      return Error::of(ErrorCode::kNotFound,
                       "there is no " + gpu_text(gpu) + "; this node has " + std::to_string(gpus_));
    }
    const auto before = request.gpus.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(request.gpus.begin(), before, gpu) != before) {
      return Error::invalid(gpu_text(gpu) + " is named twice");
    }
    for (const LeaseEntry* other : holders(gpu)) {
      if (other == of) continue;
      if (same_user(peer, other->holder) && !other->controls.overlaps(request.controls)) continue;
      held.add(held_text(gpu, *other, peer, may_see(gpu), now));
      break;
    }
  }
  if (held.empty()) return ok_status();
  return Error{ErrorCode::kConflict, held.take()};
}

/// Checks the invariants of the book for a granted lease, independently of checks of the request.
void LeaseBook::check_held_once(const LeaseEntry& lease) const {
  HARPE_CHECK(!lease.gpus.empty() && !lease.controls.empty(), "a lease holds something");
  for (std::size_t i = 0; i < lease.gpus.size(); ++i) {
    const int gpu = lease.gpus[i];
    HARPE_CHECK(gpu >= 0 && gpu < gpus_, "a lease holds GPUs of this node");
    HARPE_CHECK(i == 0 || lease.gpus[i - 1] < gpu, "a lease holds a GPU once");
    for (const LeaseEntry* other : holders(gpu)) {
      if (other->id == lease.id) continue;
      HARPE_CHECK(same_user(lease.holder, other->holder), "a GPU is held by one user at most");
      HARPE_CHECK(!other->controls.overlaps(lease.controls),
                  "a control of a GPU is held by one lease at most");
    }
  }
}

/// Ends a lease for its users: from now on no client sets anything under it.
void LeaseBook::expire(const LeaseEntry& lease) {
  const std::int64_t expiry = lease.expiry->exchange(0);
  HARPE_CHECK(expiry == lease.expires.ns, "a lease ends once, with the expiry that it was given");
}

void LeaseBook::last(LeaseEntry& lease, Seconds duration, Instant now) {
  lease.duration = duration;
  lease.expires = now + duration;
  HARPE_CHECK(lease.expires >= now, "a lease lasts from now on");
  *lease.expiry = lease.expires.ns;
}

Result<LeaseEntry> LeaseBook::take(const net::Peer& peer, const Request& request, Instant now,
                                   const std::function<bool(int gpu)>& may_see) {
  HARPE_TRY(check_request(peer, request, nullptr, now, may_see));
  LeaseEntry entry;
  entry.id = new_id_();
  HARPE_CHECK(find(entry.id) == nullptr, "no two leases have one name");
  entry.holder = peer;
  entry.gpus = request.gpus;
  std::ranges::sort(entry.gpus);
  entry.name = request.name;
  entry.expiry = std::make_shared<std::atomic<std::int64_t>>();
  last(entry, request.duration, now);
  entry.implied = request.implied;
  entry.controls = request.controls;
  leases_.push_back(entry);
  check_held_once(entry);
  return entry;
}

Result<LeaseEntry> LeaseBook::extend(const net::Peer& peer, const std::string& id,
                                     const Request& request, Instant now,
                                     const std::function<bool(int gpu)>& may_see) {
  HARPE_TRY(usable(peer, id, now));
  LeaseEntry* lease = entry(id);
  HARPE_CHECK(request.controls == lease->controls, "a lease keeps the controls it was taken for");
  HARPE_TRY(check_request(peer, request, lease, now, may_see));
  std::vector<int> all;
  std::vector<int> added = request.gpus;
  std::ranges::sort(added);
  std::ranges::set_union(lease->gpus, added, std::back_inserter(all));
  lease->gpus = std::move(all);
  last(*lease, request.duration, now);
  check_held_once(*lease);
  return *lease;
}

void LeaseBook::set_proven(const std::string& id, std::map<int, Proofs> proven) {
  if (LeaseEntry* lease = entry(id)) lease->proven = std::move(proven);
}

Status LeaseBook::renew(const net::Peer& peer, const std::string& id, Seconds duration,
                        Instant now) {
  HARPE_TRY(check_duration(duration));
  HARPE_TRY(usable(peer, id, now));
  last(*entry(id), duration, now);
  return ok_status();
}

Result<LeaseEntry> LeaseBook::usable(const net::Peer& peer, const std::string& id,
                                     Instant now) const {
  const LeaseEntry* lease = find(id);
  if (lease == nullptr || !same_user(peer, lease->holder) || lease->expires <= now) {
    return no_such_lease();
  }
  return *lease;
}

std::optional<LeaseEntry> LeaseBook::remove(const std::string& id) {
  const auto found = std::ranges::find(leases_, id, &LeaseEntry::id);
  if (found == leases_.end()) return std::nullopt;
  LeaseEntry lease = std::move(*found);
  leases_.erase(found);
  expire(lease);
  return lease;
}

std::vector<LeaseEntry> LeaseBook::remove_expired(Instant now) {
  std::vector<LeaseEntry> expired, live;
  for (LeaseEntry& lease : leases_) {
    if (lease.expires <= now && lease.renews_itself()) last(lease, lease.duration, now);
    (lease.expires > now ? live : expired).push_back(std::move(lease));
  }
  leases_ = std::move(live);
  for (const LeaseEntry& lease : expired) expire(lease);
  return expired;
}

std::vector<LeaseEntry> LeaseBook::remove_all() {
  for (const LeaseEntry& lease : leases_) expire(lease);
  return std::exchange(leases_, {});
}

const LeaseEntry* LeaseBook::find(const std::string& id) const {
  const auto found = std::ranges::find(leases_, id, &LeaseEntry::id);
  return found == leases_.end() ? nullptr : &*found;
}

LeaseEntry* LeaseBook::entry(const std::string& id) {
  const auto found = std::ranges::find(leases_, id, &LeaseEntry::id);
  return found == leases_.end() ? nullptr : &*found;
}

std::vector<const LeaseEntry*> LeaseBook::holders(int gpu) const {
  std::vector<const LeaseEntry*> found;
  for (const LeaseEntry& lease : leases_) {
    if (std::ranges::binary_search(lease.gpus, gpu)) found.push_back(&lease);
  }
  return found;
}

const LeaseEntry* LeaseBook::implied(const net::Peer& peer) const {
  const auto found = std::ranges::find_if(leases_, [&](const LeaseEntry& lease) {
    return lease.implied && same_user(lease.holder, peer) && lease.holder.pid == peer.pid &&
           lease.holder.start_ticks == peer.start_ticks;
  });
  return found == leases_.end() ? nullptr : &*found;
}

std::optional<Instant> LeaseBook::next_expiry() const {
  if (leases_.empty()) return std::nullopt;
  return std::ranges::min(leases_, {}, &LeaseEntry::expires).expires;
}

}  // namespace harpe::node
