// What a GPU was set to before it was changed: saving it, and putting it back.

#include <utility>

#include "harpe/base/check.h"
#include "harpe/node/agent/gpu_control.h"
#include "harpe/node/agent/lease_book.h"
#include "harpe/node/agent/policy_text.h"
#include "harpe/node/agent/setting_checks.h"

namespace harpe {

// --- What was there before.

/// After a driver refused outright, what was saved for its call is not kept: nothing was changed.
void GpuControl::forget_unless_changed(ErrorCode code, const SavedGpu& before) {
  const bool refused = code == ErrorCode::kNoPermission || code == ErrorCode::kNotSupported ||
                       code == ErrorCode::kInvalidInput;
  if (!refused || saved_ == before) return;
  const bool was_kept = !before.empty();
  Status status =
      was_kept ? services_.state.put(before) : services_.state.take_out(identity().uuid);
  if (!status.ok()) return;  // then it is restored needlessly
  saved_ = before;
  kept_ = was_kept;
}

Status GpuControl::keep(SavedGpu saved, const Holder& holder) {
  saved.uuid = identity().uuid;
  // The subject of a token may be long, and the file has its space taken beforehand.
  saved.holder = text_of(holder.peer).substr(0, kLongestHolder);
  Status status = services_.state.put(saved);
  if (status.ok()) {
    saved_ = std::move(saved);
    kept_ = true;
  }
  return status;
}

/// Before every call that changes the GPU: whatever ends this program, the next one restores it.
void GpuControl::check_saved(bool is_saved) const {
  HARPE_CHECK(is_saved && kept_, "what a GPU was set to is in the state file before it is changed");
}

Status GpuControl::save_lock(const Holder& holder, ClockDomain domain) {
  const bool graphics = domain == ClockDomain::kGraphics;
  if (graphics ? saved_.graphics.has_value() : saved_.memory.has_value()) return ok_status();
  SavedLock before;
  const auto lock = gpu_->locked_clocks(domain);
  if (lock.ok()) {
    before.range = *lock;
  } else if (lock.error().code != ErrorCode::kNotSupported) {
    return lock.error();
  }
  SavedGpu saved = saved_;
  (graphics ? saved.graphics : saved.memory) = before;
  return keep(std::move(saved), holder);
}

Status GpuControl::save_power_limit(const Holder& holder) {
  if (saved_.power_limit) return ok_status();
  const auto before = HARPE_TRY(gpu_->power_limit());
  SavedGpu saved = saved_;
  saved.power_limit = before;
  return keep(std::move(saved), holder);
}

Status GpuControl::save_persistence_mode(const Holder& holder) {
  if (saved_.persistence_mode) return ok_status();
  const auto before = HARPE_TRY(gpu_->persistence_mode());
  SavedGpu saved = saved_;
  saved.persistence_mode = before;
  return keep(std::move(saved), holder);
}

// --- Restoring.

Status GpuControl::restore_lock(ClockDomain domain, std::optional<SavedLock>& lock) {
  if (!lock) return ok_status();
  (domain == ClockDomain::kGraphics ? graphics_lock_ : memory_lock_).reset();
  HARPE_TRY(lock->range ? gpu_->set_locked_clocks(domain, *lock->range)
                        : gpu_->reset_locked_clocks(domain));
  const auto now = gpu_->locked_clocks(domain);
  if (now.ok() && *now != lock->range) {
    return Error::of(ErrorCode::kUnavailable,
                     std::string(name_of(domain)) + " clocks of " + name() +
                         " do not read as before after they were restored");
  }
  lock.reset();
  return ok_status();
}

Status GpuControl::restore_power_limit() {
  if (!saved_.power_limit) return ok_status();
  HARPE_TRY(gpu_->set_power_limit(*saved_.power_limit));
  const auto now = HARPE_TRY(gpu_->power_limit());
  if (!same_limit(now, *saved_.power_limit)) {
    return Error::of(ErrorCode::kUnavailable, "the power limit of " + name() + " reads " +
                                                  text_of(now) + " after " +
                                                  text_of(*saved_.power_limit) + " was restored");
  }
  saved_.power_limit.reset();
  return ok_status();
}

Status GpuControl::restore_persistence_mode() {
  if (!saved_.persistence_mode) return ok_status();
  HARPE_TRY(gpu_->set_persistence_mode(*saved_.persistence_mode));
  const auto now = HARPE_TRY(gpu_->persistence_mode());
  if (now != *saved_.persistence_mode) {
    return Error::of(ErrorCode::kUnavailable,
                     "the persistence mode of " + name() + " does not read as it was restored");
  }
  saved_.persistence_mode.reset();
  return ok_status();
}

Status GpuControl::restore(const Holder& holder) {
  // A log that fails must not keep a GPU from being restored.
  (void)flush_changes();
  clock_changes_.drop();
  settings_.drop();
  due_.add(holder.controls);
  const SavedGpu wanted = part_of(saved_, due_);
  if (!changed() || (wanted.empty() && last_failure_.empty())) {
    due_ = Controls::none();
    return ok_status();
  }
  Diagnostics diagnostics;
  ErrorCode code = ErrorCode::kUnavailable;
  std::string said;
  // Each is tried whatever became of the others; persistence mode last, as settings may need it.
  const auto tried = [&](Control control, const Status& restored) {
    const Status status = seen_from_agent(restored, name());
    if (status.ok()) return due_.remove(control);
    code = status.error().code;
    // A GPU that is lost says the same of everything.
    if (status.error().text() != said) diagnostics.add(said = status.error().text());
  };
  if (due_.has(Control::kClocks)) {
    tried(Control::kClocks, restore_lock(ClockDomain::kGraphics, saved_.graphics));
  }
  if (due_.has(Control::kMemoryClocks)) {
    tried(Control::kMemoryClocks, restore_lock(ClockDomain::kMemory, saved_.memory));
  }
  if (due_.has(Control::kPowerLimit)) tried(Control::kPowerLimit, restore_power_limit());
  if (due_.has(Control::kPersistenceMode) && diagnostics.empty()) {
    tried(Control::kPersistenceMode, restore_persistence_mode());
  }
  if (Status kept = keep_what_is_left(); !kept.ok()) {
    code = kept.error().code;
    diagnostics.add(kept.error().text());
  }
  AuditEntry line = entry(holder, "restore", "", text_of(wanted));
  Status status = ok_status();
  if (!diagnostics.empty()) status = Error{code, diagnostics.take()};
  const std::string failure = status.ok() ? "" : status.error().text();
  line.result = status.ok() ? "applied" : "failed: " + failure;
  // A try that fails as the one before did says nothing more.
  if (status.ok() || failure != last_failure_) (void)services_.audit.write(line);
  last_failure_ = failure;
  ++(status.ok() ? services_.counters.restores : services_.counters.restore_failures);
  return status;
}

/// Brings the state file in step after something was restored.
Status GpuControl::keep_what_is_left() {
  Status status =
      saved_.empty() ? services_.state.take_out(identity().uuid) : services_.state.put(saved_);
  // While it cannot be written, it names too much: that is tried again, too.
  kept_ = !saved_.empty() || !status.ok();
  return status;
}

}  // namespace harpe
