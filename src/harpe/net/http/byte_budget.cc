#include "harpe/net/http/byte_budget.h"

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

}  // namespace harpe::net
