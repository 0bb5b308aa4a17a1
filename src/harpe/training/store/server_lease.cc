#include "harpe/training/store/server_lease.h"

#include <algorithm>
#include <utility>

namespace harpe::training {

LeaseStep ServerLease::send(LeaseStep::Kind kind, const std::string& server, Instant now) {
  sent_ = now;
  step_ = LeaseStep{.kind = kind, .server = server};
  return *step_;
}

std::optional<LeaseStep> ServerLease::next(Instant now) {
  if (server_.empty()) return send(LeaseStep::Kind::kJoin, new_name_(), now);
  if (wake(now) <= now) return send(LeaseStep::Kind::kRenew, server_, now);
  if (std::exchange(look_due_, false)) return send(LeaseStep::Kind::kLook, server_, now);
  while (!to_remove_.empty()) {
    const SeenBeat row = std::move(to_remove_.back());
    to_remove_.pop_back();
    if (!may_remove(row, now)) continue;
    send(LeaseStep::Kind::kRemove, row.server, now);
    step_->beat = row.beat;
    return step_;
  }
  return std::nullopt;
}

void ServerLease::written(bool found) {
  const std::optional<LeaseStep> step = std::exchange(step_, std::nullopt);
  if (!step) return;
  if (step->kind == LeaseStep::Kind::kJoin) {
    server_ = step->server;
    hold();
  } else if (step->kind == LeaseStep::Kind::kRenew && found) {
    hold();
  } else if (step->kind == LeaseStep::Kind::kRenew) {
    // Another server considered this server gone, and may have its jobs.
    server_.clear();
    ++tenure_;
    until_.reset();
    renewed_.reset();
  }
}

void ServerLease::hold() {
  renewed_ = sent_;
  until_ = sent_ + (times_.lease - times_.margin);
  look_due_ = true;
}

void ServerLease::looked(const std::vector<SeenBeat>& all, Instant received) {
  step_.reset();
  to_remove_ = all;
  std::erase_if(others_, [&](const auto& other) {
    return std::ranges::find(all, other.first, &SeenBeat::server) == all.end();
  });
  for (const SeenBeat& one : all) {
    const auto [other, added] = others_.try_emplace(one.server, Watched{one.beat, received});
    if (!added && other->second.beat != one.beat) other->second = {one.beat, received};
  }
}

bool ServerLease::may_remove(const SeenBeat& row, Instant now) const {
  if (row.gone) return true;
  const auto other = others_.find(row.server);
  return other != others_.end() && other->second.beat == row.beat &&
         now - other->second.since >= times_.lease + times_.margin;
}

}  // namespace harpe::training
