#include "harpe/node/agent/saved_settings.h"

#include <utility>

#include "harpe/base/check.h"
#include "harpe/node/agent/policy_text.h"
#include "harpe/node/agent/setting_checks.h"

namespace harpe::node {

std::string SavedSettings::name() const {
  return "GPU " + std::to_string(gpu_.identity().index);
}

void SavedSettings::take_over(SavedGpu saved) {
  saved_ = std::move(saved);
  is_in_file_ = true;
}

void SavedSettings::forget_unless_changed(ErrorCode code, const SavedGpu& before) {
  const bool refused = code == ErrorCode::kNoPermission || code == ErrorCode::kNotSupported ||
                       code == ErrorCode::kInvalidInput;
  if (!refused || saved_ == before) return;
  const bool was_in_file = !before.empty();
  Status status = was_in_file ? state_.put(before) : state_.take_out(gpu_.identity().uuid);
  if (!status.ok()) return;  // the setting is then restored needlessly
  saved_ = before;
  is_in_file_ = was_in_file;
}

Status SavedSettings::keep(SavedGpu saved, const std::string& holder) {
  saved.uuid = gpu_.identity().uuid;
  // The subject of a token may be long, and the space of the file is reserved
  // beforehand.
  saved.holder = holder.substr(0, kLongestHolder);
  Status status = state_.put(saved);
  if (status.ok()) {
    saved_ = std::move(saved);
    is_in_file_ = true;
  }
  return status;
}

void SavedSettings::check_saved(bool is_saved) const {
  HARPE_CHECK(is_saved && is_in_file_,
              "what a GPU was set to is in the state file before it is changed");
}

Status SavedSettings::save_lock(const std::string& holder, ClockDomain domain) {
  const bool graphics = domain == ClockDomain::kGraphics;
  if (graphics ? saved_.graphics.has_value() : saved_.memory.has_value()) return ok_status();
  SavedLock before;
  const auto lock = gpu_.locked_clocks(domain);
  if (lock.ok()) {
    before.range = *lock;
  } else if (lock.error().code != ErrorCode::kNotSupported) {
    return lock.error();
  }
  SavedGpu saved = saved_;
  (graphics ? saved.graphics : saved.memory) = before;
  return keep(std::move(saved), holder);
}

Status SavedSettings::save_power_limit(const std::string& holder) {
  if (saved_.power_limit) return ok_status();
  const auto before = HARPE_TRY(gpu_.power_limit());
  SavedGpu saved = saved_;
  saved.power_limit = before;
  return keep(std::move(saved), holder);
}

Status SavedSettings::save_persistence_mode(const std::string& holder) {
  if (saved_.persistence_mode) return ok_status();
  const auto before = HARPE_TRY(gpu_.persistence_mode());
  SavedGpu saved = saved_;
  saved.persistence_mode = before;
  return keep(std::move(saved), holder);
}

// --- Restoring.

Status SavedSettings::put_back_lock(ClockDomain domain, const SavedLock& lock) {
  HARPE_TRY(lock.range ? gpu_.set_locked_clocks(domain, *lock.range)
                       : gpu_.reset_locked_clocks(domain));
  const auto now = gpu_.locked_clocks(domain);
  if (now.ok() && *now != lock.range) {
    return Error::of(ErrorCode::kUnavailable,
                     std::string(name_of(domain)) + " clocks of " + name() +
                         " do not read as before after they were restored");
  }
  return ok_status();
}

Status SavedSettings::restore_power_limit() {
  if (!saved_.power_limit) return ok_status();
  HARPE_TRY(gpu_.set_power_limit(*saved_.power_limit));
  const auto now = HARPE_TRY(gpu_.power_limit());
  if (!same_limit(now, *saved_.power_limit)) {
    return Error::of(ErrorCode::kUnavailable, "the power limit of " + name() + " reads " +
                                                  text_of(now) + " after " +
                                                  text_of(*saved_.power_limit) + " was restored");
  }
  saved_.power_limit.reset();
  return ok_status();
}

Status SavedSettings::restore_persistence_mode() {
  if (!saved_.persistence_mode) return ok_status();
  HARPE_TRY(gpu_.set_persistence_mode(*saved_.persistence_mode));
  const auto now = HARPE_TRY(gpu_.persistence_mode());
  if (now != *saved_.persistence_mode) {
    return Error::of(ErrorCode::kUnavailable,
                     "the persistence mode of " + name() + " does not read as it was restored");
  }
  saved_.persistence_mode.reset();
  return ok_status();
}

Status SavedSettings::restore_all_due() {
  Diagnostics diagnostics;
  ErrorCode code = ErrorCode::kUnavailable;
  std::string last;
  // Each is tried, whether or not the others failed; persistence mode last,
  // because settings may need it.
  const auto note = [&](Control control, const Status& restored) {
    const Status status = seen_from_agent(restored, name());
    if (status.ok()) return due_.remove(control);
    code = status.error().code;
    // A GPU that is lost returns the same error for everything.
    if (status.error().text() != last) diagnostics.add(last = status.error().text());
  };
  const auto restore_lock = [this](ClockDomain domain, std::optional<SavedLock>& lock) -> Status {
    if (lock) HARPE_TRY(put_back_lock(domain, *lock));
    lock.reset();
    return ok_status();
  };
  if (due_.has(Control::kClocks)) {
    note(Control::kClocks, restore_lock(ClockDomain::kGraphics, saved_.graphics));
  }
  if (due_.has(Control::kMemoryClocks)) {
    note(Control::kMemoryClocks, restore_lock(ClockDomain::kMemory, saved_.memory));
  }
  if (due_.has(Control::kPowerLimit)) note(Control::kPowerLimit, restore_power_limit());
  if (due_.has(Control::kPersistenceMode) && diagnostics.empty()) {
    note(Control::kPersistenceMode, restore_persistence_mode());
  }
  if (Status kept = keep_what_is_left(); !kept.ok()) {
    code = kept.error().code;
    diagnostics.add(kept.error().text());
  }
  if (diagnostics.empty()) return ok_status();
  return Error{code, diagnostics.take()};
}

std::optional<SavedSettings::Restoration> SavedSettings::restore(Controls controls) {
  due_.add(controls);
  SavedGpu wanted = part_of(saved_, due_);
  if (!changed() || (wanted.empty() && last_failure_.empty())) {
    due_ = Controls::none();
    return std::nullopt;
  }
  Status status = restore_all_due();
  std::string failure = status.ok() ? "" : status.error().text();
  const bool is_news = status.ok() || failure != last_failure_;
  last_failure_ = std::move(failure);
  return Restoration{.wanted = std::move(wanted), .status = std::move(status), .is_news = is_news};
}

/// Updates the state file after something was restored.
Status SavedSettings::keep_what_is_left() {
  Status status = saved_.empty() ? state_.take_out(gpu_.identity().uuid) : state_.put(saved_);
  // If it cannot be written, it names too much, which another call corrects.
  is_in_file_ = !saved_.empty() || !status.ok();
  return status;
}

std::string SavedSettings::due_text() const {
  return text_of(part_of(saved_, due_));
}

std::string SavedSettings::pending_text() const {
  const std::string due = due_text();
  if (due.empty()) return {};
  std::string text = "could not be restored yet, and is tried again: " + due;
  if (!last_failure_.empty()) text += " (" + last_failure_ + ")";
  return text;
}

}  // namespace harpe::node
