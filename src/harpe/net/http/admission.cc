#include "harpe/net/http/admission.h"

#include <algorithm>
#include <utility>

namespace harpe::net {
ByteBudget::Share::Share(std::shared_ptr<ByteBudget> budget, std::string client)
    : budget_(std::move(budget)), client_(std::move(client)) {}

bool ByteBudget::Share::hold(std::size_t bytes) {
  const std::size_t counted = bytes > kFree ? bytes - kFree : 0;
  if (counted == counted_) return true;
  if (!budget_->change(client_, counted_, counted)) return false;
  counted_ = counted;
  return true;
}

bool ByteBudget::change(const std::string& client, std::size_t before, std::size_t after) {
  const auto within = [after](std::size_t others, std::size_t most) {
    return others == 0 || (after <= most && others <= most - after);
  };
  const auto found = of_clients_.find(client);
  const std::size_t of_others = held_ - before;
  const std::size_t of_client = (found != of_clients_.end() ? found->second : 0) - before;
  const bool fits = within(of_others, limits_.total) && within(of_client, limits_.per_client);
  if (after > before && !fits) return false;
  held_ = of_others + after;
  if (of_client + after == 0) {
    of_clients_.erase(client);
  } else if (found != of_clients_.end()) {
    found->second = of_client + after;
  } else {
    of_clients_.emplace(client, after);
  }
  return true;
}

std::size_t ClientCounts::of(const std::string& client) const {
  const auto found = clients_.find(client);
  return found != clients_.end() ? found->second : 0;
}

void ClientCounts::add(const std::string& client) {
  ++clients_[client];
  ++total_;
}

void ClientCounts::remove(const std::string& client) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  --total_;
  if (--found->second == 0) clients_.erase(found);
}

Admission::Place Admission::enter(const std::string& client, bool is_admin) {
  if (!is_full() && usual_.of(client) < limits_.per_client) {
    usual_.add(client);
    return Place::kUsual;
  }
  const std::size_t of_admins = limits_.reserve / 2;
  const std::size_t of_others = limits_.reserve - of_admins;
  if (is_admin && admins_ < of_admins) {
    ++admins_;
    return Place::kAdmin;
  }
  const std::size_t of_one = std::max<std::size_t>(1, of_others / 8);
  if (reserve_.total() < of_others && reserve_.of(client) < of_one) {
    reserve_.add(client);
    return Place::kReserve;
  }
  return Place::kNone;
}

void Admission::leave(const std::string& client, Place place) {
  if (place == Place::kUsual) usual_.remove(client);
  if (place == Place::kReserve) reserve_.remove(client);
  if (place == Place::kAdmin) --admins_;
  if (place == Place::kServer) --servers_;
}

Admission::Place Admission::to_server(const std::string& client) {
  usual_.remove(client);
  ++servers_;
  return Place::kServer;
}

// --- Turns --------------------------------------------------------------------------------------

bool Turns::has_room(const std::string& client) const {
  return busy_.total() < most_ && busy_.of(client) < std::max<std::size_t>(1, most_ / 4);
}

void Turns::wait(const std::string& client, std::function<bool()> begin) {
  if (!has_room(client)) {
    waiting_[client].push_back(std::move(begin));
    return;
  }
  busy_.add(client);
  if (!begin()) end(client);
}

void Turns::end(const std::string& client) {
  busy_.remove(client);
  // Few clients are skipped: only a few can hold their full quarter of the turns.
  for (std::size_t left = waiting_.size(); left > 0; --left) {
    auto next = waiting_.upper_bound(newest_);
    if (next == waiting_.end()) next = waiting_.begin();
    newest_ = next->first;
    if (!has_room(newest_)) continue;
    busy_.add(newest_);
    while (!next->second.empty()) {
      const std::function<bool()> begin = std::move(next->second.front());
      next->second.pop_front();
      if (!begin()) continue;
      if (next->second.empty()) waiting_.erase(next);
      return;
    }
    busy_.remove(newest_);
    waiting_.erase(next);
  }
}

}  // namespace harpe::net
