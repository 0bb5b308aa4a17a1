#pragma once
/// \file
/// Ids of jobs that were looked for in the store and are not there, for a moment: who asks for them
/// again and again does not ask the store each time.

#include <cstddef>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>

#include "harpe/base/clock.h"

namespace harpe {

/// Not thread-safe. O(1) each; bounded.
class UnknownIds {
 public:
  static constexpr Seconds kRemembered{1};
  static constexpr std::size_t kMost = 65'536;

  void add(const std::string& id, Instant now) {
    if (order_.size() == kMost) drop_oldest();
    until_[id] = now + kRemembered;
    order_.emplace_back(now + kRemembered, id);
  }
  bool contains(const std::string& id, Instant now) {
    while (!order_.empty() && order_.front().first <= now) drop_oldest();
    return until_.contains(id);
  }
  void remove(const std::string& id) { until_.erase(id); }

 private:
  void drop_oldest() {
    const auto& [until, id] = order_.front();
    const auto found = until_.find(id);
    if (found != until_.end() && found->second <= until) until_.erase(found);
    order_.pop_front();
  }

  std::unordered_map<std::string, Instant> until_;
  std::deque<std::pair<Instant, std::string>> order_;
};

}  // namespace harpe
