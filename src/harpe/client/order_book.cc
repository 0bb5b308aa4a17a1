#include "harpe/client/order_book.h"

#include <algorithm>
#include <utility>

namespace harpe {

Status OrderBook::add(const StageOrders& orders) {
  if (orders.version == 0) return Error::invalid("orders of version 0 mean none");
  if (orders.clocks.size() != 1 && orders.clocks.size() != instructions_) {
    return Error::invalid("orders of version " + std::to_string(orders.version) + " have " +
                          std::to_string(orders.clocks.size()) + " clocks; this stage has " +
                          std::to_string(instructions_) +
                          " instructions. Does this rank follow the schedule of its job?");
  }
  if (std::ranges::any_of(orders.clocks, [](Megahertz clock) { return clock.value < 0; })) {
    return Error::invalid("orders of version " + std::to_string(orders.version) +
                          " have a negative clock");
  }
  if (!orders_.empty() && orders.epoch < orders_.back().epoch) return ok_status();
  const auto age = [](const StageOrders& one) { return std::pair(one.epoch, one.version); };
  const auto place = std::ranges::lower_bound(orders_, age(orders), {}, age);
  if (place != orders_.end() && age(*place) == age(orders)) return ok_status();
  const auto added = orders_.insert(place, orders);
  if (added->clocks.size() == 1) added->clocks.assign(instructions_, orders.clocks.front());
  // The oldest is what the newest are to replace: it goes first.
  if (orders_.size() > kMostOrders) orders_.erase(orders_.begin());
  return ok_status();
}

void OrderBook::forget_before(std::int64_t iteration) {
  const StageOrders* holds = in_force(iteration);
  if (holds == nullptr) return;
  orders_.erase(orders_.begin(), orders_.begin() + (holds - orders_.data()));
}

const StageOrders* OrderBook::in_force(std::int64_t iteration) const noexcept {
  for (std::size_t i = orders_.size(); i-- > 0;) {
    if (orders_[i].from_iteration <= iteration) return &orders_[i];
  }
  return nullptr;
}

const StageOrders* OrderBook::of_version(std::uint64_t version) const noexcept {
  const auto found = std::ranges::find(orders_, version, &StageOrders::version);
  return found != orders_.end() ? &*found : nullptr;
}

}  // namespace harpe
