#include "harpe/device/measure/clock_restorer.h"

#include <utility>

namespace harpe {

ClockRestorer::ClockRestorer(Gpu& gpu) : gpu_(&gpu) {
  const auto before = gpu.locked_clocks(ClockDomain::kGraphics);
  knows_before_ = before.ok();
  if (before.ok()) before_ = *before;
}

Status ClockRestorer::restore() {
  if (std::exchange(restored_, true)) return ok_status();
  if (before_) return gpu_->set_locked_clocks(ClockDomain::kGraphics, *before_);
  return gpu_->reset_locked_clocks(ClockDomain::kGraphics);
}

}  // namespace harpe
