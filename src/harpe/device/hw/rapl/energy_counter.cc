#include "harpe/device/hw/rapl/energy_counter.h"

#include <algorithm>
#include <limits>

namespace harpe {
namespace {

/// The counter moves in steps and both readings take time: this much may hide between them.
constexpr Seconds kSlack{0.1};

}  // namespace

Joules EnergyCounter::add(std::uint64_t value_uj, Instant now) {
  std::uint64_t used = 0;
  if (last_ && value_uj >= last_->value) {
    used = value_uj - last_->value;
  } else if (last_) {
    const Seconds elapsed = std::max(now - last_->time, Seconds{0}) + kSlack;
    const double most = (highest_power_ * elapsed).value * 1e6;
    const bool in_range = last_->value <= range_;
    const std::uint64_t wrapped = in_range ? range_ - last_->value + value_uj : 0;
    const bool is_wrap = in_range && static_cast<double>(wrapped) <= most;
    if (is_wrap) {
      used = wrapped;
    } else if (static_cast<double>(value_uj) <= most) {
      used = value_uj;  // since it started anew
    }
  }
  last_ = {.value = value_uj, .time = now};
  total_ += std::min(used, std::numeric_limits<std::uint64_t>::max() - total_);
  return {static_cast<double>(total_) * 1e-6};
}

}  // namespace harpe
