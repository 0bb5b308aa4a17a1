#pragma once
/// \file
/// How many requests a second one client may make: a token bucket for each.

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>

#include "harpe/base/clock.h"

namespace harpe {

/// Not thread-safe. O(1) a request; buckets that have filled up again are forgotten.
class ClientRates {
 public:
  /// \param per_second  requests in the long run; as many may come at once. 0: no limit
  explicit ClientRates(double per_second) : per_second_(per_second) {}

  /// Counts one request. None: it may be served; else how long the client should wait.
  std::optional<Seconds> take(const std::string& client, Instant now);

  std::size_t clients() const { return buckets_.size(); }

 private:
  struct Bucket {
    double requests = 0;  ///< that may still be made at once
    Instant filled;
  };
  void forget_full(Instant now);

  double per_second_;
  std::unordered_map<std::string, Bucket> buckets_;
  std::size_t next_sweep_ = 1024;
};

}  // namespace harpe
