// Taking, keeping and ending leases.

#include <algorithm>
#include <utility>

#include "harpe/agent/node_controller.h"
#include "harpe/agent/setting_text.h"

namespace harpe {

Lease NodeController::view(const LeaseEntry& lease) const {
  Lease view;
  view.id = lease.id;
  view.gpus = lease.gpus;
  view.uid = lease.holder.uid;
  view.pid = lease.holder.pid;
  view.name = lease.name;
  view.expires_in = lease.expires - clock_.now();
  view.controls = lease.controls;
  return view;
}

Result<Lease> NodeController::grant(const Peer& peer, const LeaseBook::Wish& wish,
                                    bool ends_with_process) {
  std::optional<ProcessWatch> process;
  if (ends_with_process && peer.pid > 0) {
    auto opened = ProcessWatch::open(peer);
    if (!opened) return std::move(opened).error();
    process = *std::move(opened);
  }
  const auto may_see = [&](int gpu) {
    return peer.uid == 0 || check_readable(peer, gpu, true).ok();
  };
  Lease lease;
  bool is_new = true;
  {
    const std::lock_guard lock(mutex_);
    expire_locked();
    const Instant now = clock_.now();
    const LeaseEntry* known = wish.implied ? book_.implied(peer) : nullptr;
    is_new = known == nullptr;
    const auto entry = is_new ? book_.take(peer, wish, now, may_see)
                              : book_.extend(peer, known->id, wish, now, may_see);
    if (!entry) return entry.error();
    lease = view(*entry);
  }
  if (is_new) {
    ++counters_.leases_taken;
    Status logged = log(peer, "take", lease.id, list_of(lease.gpus), "applied");
    if (!logged && options_.audit_required) {
      end_lease(lease.id, End::kReleased);
      return std::move(logged).error();
    }
    if (process) watch(lease.id, *std::move(process));
  }
  loop_.post([this] { set_expiry_timer(); });
  return lease;
}

Result<Lease> NodeController::logged(const Peer& peer, const std::vector<int>& gpus,
                                     Result<Lease> lease) const {
  if (!lease) (void)log(peer, "take", "", list_of(gpus), "refused: " + lease.error().text());
  return lease;
}

Result<Lease> NodeController::take(const Peer& peer, const LeaseRequest& request) {
  const auto longest = longest_lease(peer, request.gpus);
  if (!longest) return logged(peer, request.gpus, longest.error());
  const Seconds duration = std::min(request.duration, *longest);
  return logged(peer, request.gpus,
                grant(peer, {request.gpus, duration, request.name, false, request.controls},
                      request.ends_with_process));
}

Result<Lease> NodeController::implied_lease(const Peer& peer, const std::vector<int>& gpus) {
  std::vector<int> wished = gpus;
  std::ranges::sort(wished);
  wished.erase(std::unique(wished.begin(), wished.end()), wished.end());
  std::vector<int> all = wished;
  {
    const std::lock_guard lock(mutex_);
    if (const LeaseEntry* known = book_.implied(peer)) {
      all.insert(all.end(), known->gpus.begin(), known->gpus.end());
    }
  }
  // A GPU that is added does not make the others stay longer than the policy allows them.
  const auto longest = longest_lease(peer, all);
  if (!longest) return logged(peer, wished, longest.error());
  return logged(peer, wished, grant(peer, {wished, *longest, "implied", true}, true));
}

Status NodeController::renew(const Peer& peer, const std::string& lease, Seconds duration) {
  std::vector<int> gpus;
  {
    const std::lock_guard lock(mutex_);
    expire_locked();
    const auto entry = book_.usable(peer, lease, clock_.now());
    if (!entry) return entry.error();
    gpus = entry->gpus;
  }
  const auto longest = longest_lease(peer, gpus);
  if (!longest) return longest.error();
  Status status = ok_status();
  {
    const std::lock_guard lock(mutex_);
    status = book_.renew(peer, lease, std::min(duration, *longest), clock_.now());
  }
  if (status) loop_.post([this] { set_expiry_timer(); });
  return status;
}

void NodeController::release(const Peer& peer, const std::string& lease,
                             Done<std::monostate> done) {
  std::optional<Error> refused;
  {
    const std::lock_guard lock(mutex_);
    expire_locked();
    const auto entry = book_.usable(peer, lease, clock_.now());
    // Root may end anybody's.
    if (!entry && (peer.uid != 0 || book_.find(lease) == nullptr)) {
      refused = entry.error();
    } else {
      const auto removed = book_.remove(lease);
      end_locked(*removed, End::kReleased, done);
    }
  }
  if (refused) return done(*std::move(refused));
  loop_.post([this] { unwatch_ended(); });
}

std::vector<Lease> NodeController::holders(const Peer& peer, int gpu) const {
  if (peer.uid != 0 && !check_readable(peer, gpu, true)) return {};
  const std::lock_guard lock(mutex_);
  expire_locked();
  std::vector<Lease> seen;
  for (const LeaseEntry* lease : book_.holders(gpu)) {
    seen.push_back(view(*lease));
    seen.back().id.clear();
  }
  return seen;
}

std::vector<Lease> NodeController::leases(const Peer& peer) const {
  const std::lock_guard lock(mutex_);
  expire_locked();
  std::vector<Lease> seen;
  for (const LeaseEntry& lease : book_.leases()) {
    if (peer.uid == 0 || same_user(peer, lease.holder)) seen.push_back(view(lease));
  }
  return seen;
}

void NodeController::end_locked(const LeaseEntry& lease, End why, Done<std::monostate> done) const {
  struct Ending {
    std::atomic<std::size_t> left;
    std::mutex mutex;
    Faults faults;
    Done<std::monostate> done;
  };
  const auto ending = std::make_shared<Ending>();
  ending->left = lease.gpus.size();
  ending->done = std::move(done);
  const auto one_done = [ending](const Status& status) {
    {
      const std::lock_guard lock(ending->mutex);
      if (!status) ending->faults.add(status.error().text());
    }
    if (--ending->left != 0 || !ending->done) return;
    if (ending->faults.empty()) return ending->done(ok_status());
    ending->done(Error{ErrorCode::kUnavailable, ending->faults.take()});
  };
  for (const int gpu : lease.gpus) {
    owners_[static_cast<std::size_t>(gpu)]->end_lease(holder_of(lease, gpu), one_done);
  }
  const char* action = "release";
  if (why == End::kExpired) {
    action = "expire";
    ++counters_.leases_expired;
  } else if (why == End::kProcessEnded || why == End::kChannelClosed) {
    action = why == End::kProcessEnded ? "process_ended" : "channel_closed";
    ++counters_.leases_lost_with_process;
  } else if (why == End::kAgentStops) {
    action = "agent_stops";
  }
  // A lease ends whether or not that can be written.
  (void)log(lease.holder, action, lease.id, list_of(lease.gpus), "applied");
}

void NodeController::expire_locked() const {
  for (const LeaseEntry& lease : book_.remove_expired(clock_.now())) {
    end_locked(lease, End::kExpired);
  }
}

void NodeController::end_lease(const std::string& lease, End why) {
  {
    const std::lock_guard lock(mutex_);
    const auto removed = book_.remove(lease);
    if (removed) end_locked(*removed, why);
  }
  loop_.post([this] { unwatch_ended(); });
}

}  // namespace harpe
