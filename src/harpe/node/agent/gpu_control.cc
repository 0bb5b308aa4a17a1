#include "harpe/node/agent/gpu_control.h"

#include <algorithm>
#include <utility>

#include "harpe/base/check.h"
#include "harpe/node/agent/lease_book.h"
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
  // The subject of a token may be long, but the space of the file is reserved beforehand.
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
    return Error::of(ErrorCode::kUnavailable, std::string(name_of(domain)) + " clocks of " +
                                                  name() +
                                                  " were restored, but do not read back as before");
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
    return Error::of(
        ErrorCode::kUnavailable,
        "the persistence mode of " + name() + " was restored, but does not read back as before");
  }
  saved_.persistence_mode.reset();
  return ok_status();
}

Status SavedSettings::restore_all_due() {
  Diagnostics diagnostics;
  ErrorCode code = ErrorCode::kUnavailable;
  std::string last;
  // Tries every control, even if others failed; persistence mode last, because others may need it.
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
  // If the file cannot be written, it has outdated settings, which another call corrects.
  is_in_file_ = !saved_.empty() || !status.ok();
  return status;
}

std::string SavedSettings::due_text() const {
  return text_of(part_of(saved_, due_));
}

std::string SavedSettings::pending_text() const {
  const std::string due = due_text();
  if (due.empty()) return {};
  std::string text = "could not be restored yet, and the agent tries again: " + due;
  if (!last_failure_.empty()) text += " (" + last_failure_ + ")";
  return text;
}

namespace {

constexpr Seconds kBetweenFailures{1};  ///< between lines of the audit log

/// A collector of readings that keeps the first error other than `kNotSupported`.
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

GpuControl::GpuControl(std::unique_ptr<Gpu> gpu, Services services)
    : gpu_(std::move(gpu)),
      services_(services),
      saved_(*gpu_, services.state),
      clock_changes_(services.audit, services.audit_required),
      settings_(services.audit, services.audit_required) {}

std::string GpuControl::name() const {
  return "GPU " + std::to_string(identity().index);
}

AuditEntry GpuControl::entry(const Holder& holder, const char* action, std::string from,
                             std::string to) const {
  AuditEntry entry;
  entry.action = action;
  entry.peer = holder.peer;
  entry.lease = holder.lease;
  entry.gpu = identity().uuid;
  entry.from = std::move(from);
  entry.to = std::move(to);
  return entry;
}

Result<std::vector<Megahertz>> GpuControl::supported_clocks(ClockDomain domain) {
  auto& known = domain == ClockDomain::kGraphics ? graphics_clocks_ : memory_clocks_;
  if (known && known->ok()) return *known;
  known = gpu_->supported_clocks(domain);
  if (known->ok() && (*known)->empty()) {
    known = Error::of(ErrorCode::kNotSupported, name() + " reports no clocks that can be locked");
  }
  if (known->ok()) std::ranges::sort(known->value());
  return *known;
}

Result<Applied> GpuControl::apply(const Holder& holder, const Setting& setting, Instant now) {
  using Kind = Setting::Kind;
  now_ = now;
  Result<Applied> applied = Error::internal("no such setting");
  switch (setting.kind) {
    case Kind::kLockClocks:
      applied = lock_clocks(holder, setting.domain, setting.clocks);
      break;
    case Kind::kResetClocks:
      applied = reset_clocks(holder, setting.domain);
      break;
    case Kind::kPowerLimit:
      applied = limit_power(holder, setting.limit);
      break;
    case Kind::kResetPowerLimit:
      applied = reset_power_limit(holder);
      break;
    case Kind::kPersistenceMode:
      applied = set_persistence_mode(holder, setting.enabled);
      break;
  }
  if (applied.ok()) {
    ++services_.counters.settings_applied;
    if (services_.dry_run) {
      AuditEntry line = entry(holder, action_of(setting), "", text_of(setting));
      line.result = "would apply";
      // Errors of the log are ignored, because nothing was changed.
      (void)services_.audit.write(line);
    }
    return applied;
  }
  const ErrorCode code = applied.error().code;
  const bool refused = code == ErrorCode::kNoPermission || code == ErrorCode::kInvalidInput;
  ++(refused ? services_.counters.settings_refused : services_.counters.settings_failed);
  if (refused) {
    AuditEntry line = entry(holder, "refused", "", text_of(setting));
    line.result = "refused: " + applied.error().text();
    services_.audit.refuse(std::move(line), now);
  }
  return applied;
}

Status GpuControl::log_request(AuditEntry& entry, bool gathered) {
  if (gathered) return settings_.make_room(entry.lease);
  HARPE_TRY(flush_changes());
  entry.result = "requested";
  Status logged = services_.audit.write(entry);
  return logged.ok() || !services_.audit_required ? ok_status() : std::move(logged);
}

Status GpuControl::log_result(AuditEntry& entry, bool gathered, const Status& status) {
  entry.result = status.ok() ? "applied" : "failed: " + status.error().text();
  if (gathered) {
    std::string what = entry.action + " " + entry.to + ": " + entry.result;
    AuditEntry line{
        .action = "settings", .peer = entry.peer, .lease = entry.lease, .gpu = entry.gpu};
    settings_.add(line, std::move(what), now_);
    return ok_status();
  }
  Status logged = services_.audit.write(entry);
  return logged.ok() || !services_.audit_required ? ok_status() : std::move(logged);
}

template <class Save, class Call>
Status GpuControl::change(AuditEntry entry, Save save, Call call) {
  const bool gathered = !setting_lines_.take(now_);
  HARPE_TRY(log_request(entry, gathered));
  const SavedGpu before = saved_.before();
  Status status = save();
  if (status.ok()) {
    status = seen_from_agent(call(), name());
    if (!status.ok()) saved_.forget_unless_changed(status.error().code, before);
  }
  Status logged = log_result(entry, gathered, status);
  return status.ok() ? logged : status;
}

// --- Permission and support.

Status GpuControl::check_clocks(const Allowance& allowance, ClockDomain domain, ClockRange range) {
  if (range.lowest > range.highest) {
    return Error::invalid("the lowest clock, " + text_of(range.lowest) +
                          ", is above the highest, " + text_of(range.highest));
  }
  const std::string what = std::string(name_of(domain)) + " clocks";
  const std::vector<ClockRange>& allowed = allowed_clocks(allowance, domain);
  if (!is_within(range, allowed)) {
    return denied(what + " of " + text_of(range) + " on " + name(), text_of(allowed));
  }
  const auto clocks = HARPE_TRY(supported_clocks(domain));
  Diagnostics diagnostics;
  for (const Megahertz clock : {range.lowest, range.highest}) {
    if (std::ranges::binary_search(clocks, clock)) continue;
    diagnostics.add(text_of(clock) + " is not a " + name_of(domain) + " clock of " + name() +
                    "; the nearest is " + text_of(nearest_clock(clocks, clock)));
    if (range.lowest == range.highest) break;
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

Status GpuControl::check_limit(const Allowance& allowance, Watts limit) {
  const bool allowed = std::ranges::any_of(allowance.power_limits, [&](const auto& range) {
    return range.lowest <= limit && limit <= range.highest;
  });
  if (!allowed) {
    return denied("a power limit of " + text_of(limit) + " on " + name(),
                  text_of(allowance.power_limits));
  }
  const auto range = HARPE_TRY(gpu_->power_limit_range());
  if (limit < range.lowest || limit > range.highest) {
    return Error::invalid("a power limit of " + text_of(limit) + " is out of the range of " +
                          name() + ", " + text_of(range.lowest) + " to " + text_of(range.highest));
  }
  return ok_status();
}

// --- Setting.

Applied GpuControl::read_back_clocks(ClockDomain domain, std::optional<ClockRange> range) {
  Applied applied;
  applied.clocks = range;
  applied.text = std::string(name_of(domain)) + " clocks " +
                 (range ? "locked to " + text_of(*range) : "as before the lease");
  if (const auto clock = gpu_->clock(domain); clock.ok()) applied.clock = *clock;
  const auto lock = gpu_->locked_clocks(domain);
  if (range && lock.ok() && *lock != *range) {
    applied.honoured = false;
    applied.text +=
        "; the driver changed that to " + (*lock ? text_of(**lock) : std::string("no lock"));
    applied.clocks = *lock;
  }
  const auto reasons = gpu_->event_reasons();
  if (range && reasons.ok() && reasons->throttled()) {
    applied.honoured = false;
    applied.text += "; held back by " + reasons->text();
  }
  return applied;
}

Result<Applied> GpuControl::lock_clocks(const Holder& holder, ClockDomain domain,
                                        ClockRange range) {
  HARPE_TRY(check_clocks(holder.allowance, domain, range));
  std::optional<ClockRange>& last =
      domain == ClockDomain::kGraphics ? graphics_lock_ : memory_lock_;
  if (services_.dry_run) {
    Applied would{.text = std::string("would lock ") + name_of(domain) + " clocks to " +
                          text_of(range)};
    would.clocks = range;
    return would;
  }
  const auto before = known_lock(domain);
  Status status = change(
      entry(holder, action_of(domain), before ? text_of(*before) : "", text_of(range)),
      [&] { return saved_.save_lock(text_of(holder.peer), domain); },
      [&] {
        last.reset();
        saved_.check_saved(before_of(domain).has_value());
        Status set = gpu_->set_locked_clocks(domain, range);
        if (set.ok()) last = range;
        return set;
      });
  if (!status.ok()) return std::move(status).error();
  return read_back_clocks(domain, range);
}

Result<Applied> GpuControl::reset_clocks(const Holder& holder, ClockDomain domain) {
  if (allowed_clocks(holder.allowance, domain).empty()) {
    return denied(std::string("setting ") + name_of(domain) + " clocks of " + name(), "none");
  }
  // The setting before the lease stays saved, also in the state file.
  const std::optional<SavedLock> before = before_of(domain);
  if (services_.dry_run || !before) {
    return Applied{.text = std::string(services_.dry_run ? "would restore " : "") +
                           name_of(domain) + " clocks " + (services_.dry_run ? "to those" : "as") +
                           " before the lease"};
  }
  Status status = change(
      entry(holder, action_of(domain), "", "as before"), [] { return ok_status(); },
      [&] {
        (domain == ClockDomain::kGraphics ? graphics_lock_ : memory_lock_).reset();
        return saved_.put_back_lock(domain, *before);
      });
  if (!status.ok()) return std::move(status).error();
  return read_back_clocks(domain, std::nullopt);
}

Applied GpuControl::read_back_limit(Watts before, Watts asked) {
  Applied applied;
  const auto set = gpu_->power_limit();
  const auto enforced = gpu_->enforced_power_limit();
  const Watts now = set.ok() ? *set : asked;
  applied.text = "power limit " + text_of(before) + " -> " + text_of(now);
  if (!same_limit(now, asked)) {
    applied.honoured = false;
    applied.text += " (requested: " + text_of(asked) + ", which the driver changed)";
  }
  applied.limit = enforced.ok() ? *enforced : now;
  if (enforced.ok() && *enforced < now && !same_limit(now, *enforced)) {
    applied.honoured = false;
    applied.text += "; another limit reduces it to " + text_of(*enforced);
  }
  return applied;
}

Result<Applied> GpuControl::limit_power(const Holder& holder, Watts limit) {
  HARPE_TRY(check_limit(holder.allowance, limit));
  const auto before = HARPE_TRY(gpu_->power_limit());
  if (services_.dry_run) {
    Applied would{.text = "would set the power limit " + text_of(before) + " -> " + text_of(limit)};
    would.limit = limit;
    return would;
  }
  Status status = change(
      entry(holder, "power_limit", text_of(before), text_of(limit)),
      [&] { return saved_.save_power_limit(text_of(holder.peer)); },
      [&] {
        saved_.check_saved(saved_.before().power_limit.has_value());
        return gpu_->set_power_limit(limit);
      });
  if (!status.ok()) return std::move(status).error();
  return read_back_limit(before, limit);
}

Result<Applied> GpuControl::reset_power_limit(const Holder& holder) {
  if (holder.allowance.power_limits.empty()) {
    return denied("setting the power limit of " + name(), "none");
  }
  const auto now = HARPE_TRY(gpu_->power_limit());
  const Watts before = saved_.before().power_limit.value_or(now);
  if (services_.dry_run) {
    Applied would{.text = "would restore the power limit to " + text_of(before)};
    would.limit = before;
    return would;
  }
  if (!saved_.before().power_limit) return read_back_limit(now, now);
  Status status = change(
      entry(holder, "power_limit", text_of(now), text_of(before)), [] { return ok_status(); },
      [&] { return gpu_->set_power_limit(before); });
  if (!status.ok()) return std::move(status).error();
  return read_back_limit(now, before);
}

Result<Applied> GpuControl::set_persistence_mode(const Holder& holder, bool enabled) {
  const std::string to = enabled ? "on" : "off";
  if (!holder.allowance.persistence_mode) {
    return denied("setting the persistence mode of " + name(), "none");
  }
  if (services_.dry_run) return Applied{.text = "would turn persistence mode " + to};
  const auto before = HARPE_TRY(gpu_->persistence_mode());
  Status status = change(
      entry(holder, "persistence_mode", before ? "on" : "off", to),
      [&] { return saved_.save_persistence_mode(text_of(holder.peer)); },
      [&] {
        saved_.check_saved(saved_.before().persistence_mode.has_value());
        return gpu_->set_persistence_mode(enabled);
      });
  if (!status.ok()) return std::move(status).error();
  const auto now = gpu_->persistence_mode();
  Applied applied{.text = "persistence mode " + to};
  if (now.ok() && *now != enabled) {
    applied.honoured = false;
    applied.text += ", but it reads back differently";
  }
  return applied;
}

Result<Megahertz> GpuControl::set_clock(const Holder& holder, Megahertz wanted, Instant now) {
  now_ = now;
  if (holder.allowance.clocks.empty()) {
    return denied("setting graphics clocks of " + name(), "none");
  }
  if (wanted.value == 0) {
    ++clock_calls_;
    HARPE_TRY(reset_clocks(holder, ClockDomain::kGraphics));
    return wanted;
  }
  if (!graphics_clocks_ || !graphics_clocks_->ok()) {
    HARPE_TRY(supported_clocks(ClockDomain::kGraphics));
  }
  const Megahertz clock = nearest_clock(**graphics_clocks_, wanted);
  const ClockRange range{clock, clock};
  if (!is_within(range, holder.allowance.clocks)) {
    return denied("a graphics clock of " + text_of(clock) + " on " + name(),
                  text_of(holder.allowance.clocks));
  }
  if (graphics_lock_ == range) return clock;
  if (services_.dry_run) {
    return Error::of(ErrorCode::kRefused,
                     "dry run: would lock the graphics clock to " + text_of(clock));
  }
  HARPE_TRY(clock_changes_.make_room(holder.lease));
  const SavedGpu before = saved_.before();
  HARPE_TRY(saved_.save_lock(text_of(holder.peer), ClockDomain::kGraphics));
  const std::string from = clock_changes_.empty() && graphics_lock_ ? text_of(*graphics_lock_) : "";
  graphics_lock_.reset();
  ++clock_calls_;
  saved_.check_saved(before_of(ClockDomain::kGraphics).has_value());
  Status set = seen_from_agent(gpu_->set_locked_clocks(ClockDomain::kGraphics, range), name());
  if (!set.ok()) {
    saved_.forget_unless_changed(set.error().code, before);
    if (!last_clock_failure_ || *last_clock_failure_ + kBetweenFailures <= now) {
      last_clock_failure_ = now;
      AuditEntry line = entry(holder, action_of(ClockDomain::kGraphics), "", text_of(clock));
      line.result = "failed: " + set.error().text();
      (void)services_.audit.write(line);
    }
    return std::move(set).error();
  }
  graphics_lock_ = range;
  AuditEntry line = entry(holder, "clock_changes", from, "");
  line.result = "applied";
  clock_changes_.add(line, clock.value, now);
  return clock;
}

std::optional<Instant> GpuControl::changes_due() const {
  const auto clocks = clock_changes_.due(), settings = settings_.due();
  return clocks && settings ? std::min(clocks, settings) : clocks ? clocks : settings;
}

Status GpuControl::flush_changes() {
  Status clocks = clock_changes_.flush();
  Status settings = settings_.flush();
  return clocks.ok() ? settings : clocks;
}

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
  reading.restore_pending = saved_.pending_text();
  if (!value.any && value.first) {
    std::string text = name() + " does not answer: " + value.first->text();
    if (const std::string due = saved_.due_text(); !due.empty()) {
      text += "; when it answers again, the agent restores: " + due;
    }
    return Error::of(value.first->code, text);
  }
  reading.graphics_lock = known_lock(ClockDomain::kGraphics);
  reading.memory_lock = known_lock(ClockDomain::kMemory);
  return reading;
}

Status GpuControl::restore(const Holder& holder) {
  // A failure of the log must not prevent the restoration of a GPU.
  (void)flush_changes();
  clock_changes_.drop();
  settings_.drop();
  std::optional<SavedSettings::Restoration> done = saved_.restore(holder.controls);
  if (!done) return ok_status();
  if (done->wanted.graphics) graphics_lock_.reset();
  if (done->wanted.memory) memory_lock_.reset();
  AuditEntry line = entry(holder, "restore", "", text_of(done->wanted));
  line.result = done->status.ok() ? "applied" : "failed: " + done->status.error().text();
  if (done->is_news) (void)services_.audit.write(line);
  ++(done->status.ok() ? services_.counters.restores : services_.counters.restore_failures);
  return std::move(done->status);
}

}  // namespace harpe::node
