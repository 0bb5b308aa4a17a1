// What one GPU tells.

#include <algorithm>
#include <utility>

#include "harpe/node/agent/gpu_control.h"
#include "harpe/node/agent/policy_text.h"

namespace harpe {

namespace {

/// Fills what is read, and keeps why the first thing was not.
struct Reader {
  bool any = false;
  std::optional<Error> first = {};

  template <class T>
  std::optional<T> operator()(Result<T> result) {
    if (result.ok()) {
      any = true;
      return *std::move(result);
    }
    if (!first && result.error().code != ErrorCode::kNotSupported) first = result.error();
    return std::nullopt;
  }
};

}  // namespace

GpuReading GpuControl::read_power(Instant now) {
  Reader value;
  GpuReading reading;
  reading.time = now;
  reading.power = value(gpu_->instant_power());
  reading.energy = value(gpu_->total_energy());
  return reading;
}

std::optional<ClockLock> GpuControl::known_lock(ClockDomain domain) {
  const auto told = gpu_->locked_clocks(domain);
  if (told.ok()) return ClockLock{*told};
  const auto& own = domain == ClockDomain::kGraphics ? graphics_lock_ : memory_lock_;
  if (own && told.error().code == ErrorCode::kNotSupported) return ClockLock{own};
  return std::nullopt;
}

Result<GpuReading> GpuControl::read(Instant now) {
  Reader value;
  GpuReading reading;
  reading.time = now;
  reading.power = value(gpu_->instant_power());
  reading.energy = value(gpu_->total_energy());
  reading.average_power = value(gpu_->average_power());
  reading.power_limit = value(gpu_->power_limit());
  reading.enforced_power_limit = value(gpu_->enforced_power_limit());
  reading.graphics_clock = value(gpu_->clock(ClockDomain::kGraphics));
  reading.memory_clock = value(gpu_->clock(ClockDomain::kMemory));
  reading.temperature = value(gpu_->temperature());
  reading.utilisation = value(gpu_->utilisation());
  reading.reasons = value(gpu_->event_reasons());
  reading.persistence_mode = value(gpu_->persistence_mode());
  reading.restore_pending = pending_text();
  if (!value.any && value.first) {
    std::string text = name() + " does not answer: " + value.first->text();
    if (const SavedGpu due = part_of(saved_, due_); !due.empty()) {
      text += "; when it answers again, it gets back: " + text_of(due);
    }
    return Error::of(value.first->code, text);
  }
  reading.graphics_lock = known_lock(ClockDomain::kGraphics);
  reading.memory_lock = known_lock(ClockDomain::kMemory);
  return reading;
}

std::string GpuControl::due_text() const {
  return text_of(part_of(saved_, due_));
}

std::string GpuControl::pending_text() const {
  const std::string due = due_text();
  if (due.empty()) return {};
  std::string text = "could not be restored yet, and is tried again: " + due;
  if (!last_failure_.empty()) text += " (" + last_failure_ + ")";
  return text;
}

}  // namespace harpe
