#include "harpe/training/server/client_rates.h"

#include <algorithm>

namespace harpe {

std::optional<Seconds> ClientRates::take(const std::string& client, Instant now) {
  if (per_second_ <= 0) return std::nullopt;
  const double most = std::max(1.0, per_second_);
  const auto [found, is_new] = buckets_.try_emplace(client, Bucket{most, now});
  Bucket& bucket = found->second;
  const double since = std::max(0.0, (now - bucket.filled).value);
  bucket.requests = std::min(most, bucket.requests + since * per_second_);
  bucket.filled = std::max(bucket.filled, now);
  const bool allowed = bucket.requests >= 1;
  const double missing = 1 - bucket.requests;
  if (allowed) bucket.requests -= 1;
  if (is_new && buckets_.size() >= next_sweep_) forget_full(now);
  if (allowed) return std::nullopt;
  return Seconds{missing / per_second_};
}

void ClientRates::forget_full(Instant now) {
  std::erase_if(buckets_, [&](const auto& entry) {
    const Bucket& bucket = entry.second;
    return bucket.requests + (now - bucket.filled).value * per_second_ >= per_second_;
  });
  next_sweep_ = std::max<std::size_t>(1024, buckets_.size() * 2);
}

}  // namespace harpe
