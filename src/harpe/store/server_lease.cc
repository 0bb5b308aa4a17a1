#include "harpe/store/server_lease.h"

#include <algorithm>

namespace harpe {

void ServerLease::acknowledged() {
  if (!sent_) return;
  renewed_ = sent_;
  until_ = *sent_ + (times_.lease - times_.margin);
  sent_.reset();
}

void ServerLease::lost() {
  sent_.reset();
  until_.reset();
  renewed_.reset();
}

Instant ServerLease::next_beat(Instant now) const {
  return renewed_ ? std::max(now, *renewed_ + times_.beat) : now;
}

void ServerLease::saw(const std::vector<SeenBeat>& all, Instant received) {
  std::erase_if(others_, [&](const auto& other) {
    return std::ranges::find(all, other.first, &SeenBeat::server) == all.end();
  });
  for (const SeenBeat& one : all) {
    const auto [other, added] = others_.try_emplace(one.server, Watched{one.beat, received});
    if (!added && other->second.beat != one.beat) other->second = {one.beat, received};
  }
}

bool ServerLease::may_remove(const SeenBeat& row, Instant now) const {
  const auto other = others_.find(row.server);
  return other != others_.end() && other->second.beat == row.beat &&
         now - other->second.since >= times_.lease + times_.margin;
}

}  // namespace harpe
