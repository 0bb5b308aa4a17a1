#include "harpe/zeus/tuning/job_agreement.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace harpe::zeus {

Status JobAgreement::exchange(std::span<double> sums, std::span<double> maxima) {
  if (is_alone()) return ok_status();
  std::vector<double> all(sums.begin(), sums.end());
  all.push_back(is_lost() ? 1 : 0);
  HARPE_TRY(peers_->reduce(Reduction::kSum, all));
  if (!maxima.empty()) HARPE_TRY(peers_->reduce(Reduction::kMax, maxima));
  std::copy_n(all.begin(), sums.size(), sums.begin());
  if (all.back() == 0) return ok_status();
  return Error::of(ErrorCode::kUnavailable,
                   "another process of the job can no longer set or measure");
}

Result<bool> JobAgreement::same(std::span<const double> numbers) {
  if (is_alone()) return true;
  // The maximum, and the maximum of the negatives, which gives the minimum.
  std::vector<double> maxima(numbers.begin(), numbers.end());
  for (const double number : numbers) maxima.push_back(-number);
  HARPE_TRY(exchange({}, maxima));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (maxima[i] != -maxima[i + numbers.size()]) return false;
  }
  return true;
}

double digest_of(const Knob& knob) {
  // FNV-1a over the settings' bits, reduced to the 53 bits that a double holds.
  std::uint64_t hash = 0xcbf29ce484222325 ^ static_cast<std::uint64_t>(knob.kind());
  for (const double setting : knob.settings()) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash = (hash ^ (std::bit_cast<std::uint64_t>(setting) >> shift & 0xff)) * 0x100000001b3;
    }
  }
  return static_cast<double>(hash >> 11);
}

}  // namespace harpe::zeus
