#include "harpe/agent/gpu_control.h"

#include <algorithm>
#include <cmath>

#include "harpe/agent/lease_book.h"
#include "harpe/agent/setting_text.h"

namespace harpe {
namespace {

constexpr std::size_t kMostGathered = 256;
constexpr Seconds kGatheredFor{1};

bool is_within(ClockRange range, const std::vector<ClockRange>& allowed) {
  return std::ranges::any_of(allowed, [&](const ClockRange& one) {
    return one.lowest <= range.lowest && range.highest <= one.highest;
  });
}

const std::vector<ClockRange>& allowed_clocks(const Allowance& allowance, ClockDomain domain) {
  return domain == ClockDomain::kGraphics ? allowance.clocks : allowance.memory_clocks;
}

Megahertz nearest_clock(const std::vector<Megahertz>& clocks, Megahertz wanted) {
  const auto above = std::ranges::lower_bound(clocks, wanted);
  if (above == clocks.begin()) return clocks.front();
  if (above == clocks.end()) return clocks.back();
  const Megahertz below = *(above - 1);
  return above->value - wanted.value < wanted.value - below.value ? *above : below;
}

const char* action_of(ClockDomain domain) {
  return domain == ClockDomain::kGraphics ? "graphics_clocks" : "memory_clocks";
}

Error denied(const std::string& what, const std::string& allowed) {
  return Error::of(ErrorCode::kNoPermission,
                   "the policy does not allow " + what + "; it allows " + allowed);
}

}  // namespace

GpuControl::GpuControl(std::unique_ptr<Gpu> gpu, Services services)
    : gpu_(std::move(gpu)), services_(services) {}

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
    known = Error::of(ErrorCode::kNotSupported, name() + " names no clocks that can be locked");
  }
  if (known->ok()) std::ranges::sort(known->value());
  return *known;
}

Result<Applied> GpuControl::apply(const Holder& holder, const Setting& setting) {
  using Kind = Setting::Kind;
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
  if (applied) {
    ++services_.counters.settings_applied;
    return applied;
  }
  const ErrorCode code = applied.error().code;
  const bool refused = code == ErrorCode::kNoPermission || code == ErrorCode::kInvalidInput;
  ++(refused ? services_.counters.settings_refused : services_.counters.settings_failed);
  if (refused) {
    AuditEntry line = entry(holder, "refused", "", text_of(setting));
    line.result = "refused: " + applied.error().text();
    // It was refused whether or not that can be written.
    (void)services_.audit.write(line);
  }
  return applied;
}

template <class Save, class Call>
Status GpuControl::change(AuditEntry entry, Save save, Call call) {
  if (Status flushed = flush_clock_changes(); !flushed) return flushed;
  entry.result = "requested";
  Status logged = services_.audit.write(entry);
  if (!logged && services_.audit_required) return logged;
  const SavedGpu before = saved_;
  Status status = save();
  if (status) {
    status = call();
    if (!status) forget_unless_changed(status.error().code, before);
  }
  entry.result = status ? "applied" : "failed: " + status.error().text();
  logged = services_.audit.write(entry);
  if (status && !logged && services_.audit_required) return logged;
  return status;
}

// --- What is allowed and supported.

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
  const auto clocks = supported_clocks(domain);
  if (!clocks) return clocks.error();
  Faults faults;
  for (const Megahertz clock : {range.lowest, range.highest}) {
    if (std::ranges::binary_search(*clocks, clock)) continue;
    faults.add(text_of(clock) + " is no " + name_of(domain) + " clock of " + name() +
               "; the nearest is " + text_of(nearest_clock(*clocks, clock)));
    if (range.lowest == range.highest) break;
  }
  if (!faults.empty()) return Error::invalid(std::move(faults));
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
  const auto range = gpu_->power_limit_range();
  if (!range) return range.error();
  if (limit < range->lowest || limit > range->highest) {
    return Error::invalid("a power limit of " + text_of(limit) + " is out of the range of " +
                          name() + ", " + text_of(range->lowest) + " to " +
                          text_of(range->highest));
  }
  return ok_status();
}

// --- Setting.

Applied GpuControl::read_back_clocks(ClockDomain domain, std::optional<ClockRange> range) {
  Applied applied;
  applied.clocks = range;
  applied.text = std::string(name_of(domain)) + " clocks " +
                 (range ? "locked to " + text_of(*range) : "as before the lease");
  if (const auto clock = gpu_->clock(domain)) applied.clock = *clock;
  const auto lock = gpu_->locked_clocks(domain);
  if (range && lock && *lock != *range) {
    applied.honoured = false;
    applied.text += "; the driver made that " + (*lock ? text_of(**lock) : std::string("no lock"));
    applied.clocks = *lock;
  }
  const auto reasons = gpu_->event_reasons();
  if (range && reasons && reasons->throttled()) {
    applied.honoured = false;
    applied.text += "; held back by " + reasons->text();
  }
  return applied;
}

Result<Applied> GpuControl::lock_clocks(const Holder& holder, ClockDomain domain,
                                        ClockRange range) {
  if (Status status = check_clocks(holder.allowance, domain, range); !status) {
    return std::move(status).error();
  }
  std::optional<ClockRange>& last =
      domain == ClockDomain::kGraphics ? graphics_lock_ : memory_lock_;
  if (services_.dry_run) {
    Applied would{.text = std::string("would lock ") + name_of(domain) + " clocks to " +
                          text_of(range)};
    would.clocks = range;
    return would;
  }
  const std::string before = last ? text_of(*last) : "";
  Status status = change(
      entry(holder, action_of(domain), before, text_of(range)),
      [&] { return save_lock(holder, domain); },
      [&] {
        last.reset();
        Status set = gpu_->set_locked_clocks(domain, range);
        if (set) last = range;
        return set;
      });
  if (!status) return std::move(status).error();
  return read_back_clocks(domain, range);
}

Result<Applied> GpuControl::reset_clocks(const Holder& holder, ClockDomain domain) {
  if (allowed_clocks(holder.allowance, domain).empty()) {
    return denied(std::string("setting ") + name_of(domain) + " clocks of " + name(), "none");
  }
  std::optional<SavedLock>& saved =
      domain == ClockDomain::kGraphics ? saved_.graphics : saved_.memory;
  if (services_.dry_run || !saved) {
    return Applied{.text = std::string(services_.dry_run ? "would put " : "") + name_of(domain) +
                           " clocks " + (services_.dry_run ? "back" : "as before the lease")};
  }
  std::optional<SavedLock> before = saved;  // it stays saved: the file says so too
  Status status = change(
      entry(holder, action_of(domain), "", "as before"), [] { return ok_status(); },
      [&] { return restore_lock(domain, before); });
  if (!status) return std::move(status).error();
  return read_back_clocks(domain, std::nullopt);
}

Applied GpuControl::read_back_limit(Watts before, Watts asked) {
  Applied applied;
  const auto set = gpu_->power_limit();
  const auto enforced = gpu_->enforced_power_limit();
  const Watts now = set ? *set : asked;
  applied.text = "power limit " + text_of(before) + " -> " + text_of(now);
  if (!same_limit(now, asked)) {
    applied.honoured = false;
    applied.text += " (asked for " + text_of(asked) + ", which the driver changed)";
  }
  applied.limit = enforced ? *enforced : now;
  if (enforced && *enforced < now && !same_limit(now, *enforced)) {
    applied.honoured = false;
    applied.text += "; something else holds it to " + text_of(*enforced);
  }
  return applied;
}

Result<Applied> GpuControl::limit_power(const Holder& holder, Watts limit) {
  if (Status status = check_limit(holder.allowance, limit); !status) {
    return std::move(status).error();
  }
  const auto before = gpu_->power_limit();
  if (!before) return before.error();
  if (services_.dry_run) {
    Applied would{.text =
                      "would set the power limit " + text_of(*before) + " -> " + text_of(limit)};
    would.limit = limit;
    return would;
  }
  Status status = change(
      entry(holder, "power_limit", text_of(*before), text_of(limit)),
      [&] { return save_power_limit(holder); }, [&] { return gpu_->set_power_limit(limit); });
  if (!status) return std::move(status).error();
  return read_back_limit(*before, limit);
}

Result<Applied> GpuControl::reset_power_limit(const Holder& holder) {
  if (holder.allowance.power_limits.empty()) {
    return denied("setting the power limit of " + name(), "none");
  }
  const auto now = gpu_->power_limit();
  if (!now) return now.error();
  const Watts before = saved_.power_limit.value_or(*now);
  if (services_.dry_run) {
    Applied would{.text = "would put the power limit back to " + text_of(before)};
    would.limit = before;
    return would;
  }
  if (!saved_.power_limit) return read_back_limit(*now, *now);
  Status status = change(
      entry(holder, "power_limit", text_of(*now), text_of(before)), [] { return ok_status(); },
      [&] { return gpu_->set_power_limit(before); });
  if (!status) return std::move(status).error();
  return read_back_limit(*now, before);
}

Result<Applied> GpuControl::set_persistence_mode(const Holder& holder, bool enabled) {
  const std::string to = enabled ? "on" : "off";
  if (!holder.allowance.persistence_mode) {
    return denied("setting the persistence mode of " + name(), "none");
  }
  if (services_.dry_run) return Applied{.text = "would turn persistence mode " + to};
  const auto before = gpu_->persistence_mode();
  if (!before) return before.error();
  Status status = change(
      entry(holder, "persistence_mode", *before ? "on" : "off", to),
      [&] { return save_persistence_mode(holder); },
      [&] { return gpu_->set_persistence_mode(enabled); });
  if (!status) return std::move(status).error();
  const auto now = gpu_->persistence_mode();
  Applied applied{.text = "persistence mode " + to};
  if (now && *now != enabled) {
    applied.honoured = false;
    applied.text += ", but it reads otherwise";
  }
  return applied;
}

// --- The cheap path.

Result<Megahertz> GpuControl::set_clock(const Holder& holder, Megahertz wanted, Instant now) {
  if (holder.allowance.clocks.empty()) {
    return denied("setting graphics clocks of " + name(), "none");
  }
  if (wanted.value == 0) {
    ++clock_calls_;
    auto reset = reset_clocks(holder, ClockDomain::kGraphics);
    if (!reset) return std::move(reset).error();
    return wanted;
  }
  if (!graphics_clocks_ || !graphics_clocks_->ok()) {
    if (const auto clocks = supported_clocks(ClockDomain::kGraphics); !clocks) {
      return clocks.error();
    }
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
  if (audit_failed_ || clock_changes_.lease != holder.lease ||
      clock_changes_.changes.size() >= kMostGathered) {
    if (Status status = flush_clock_changes(); !status) return std::move(status).error();
  }
  const SavedGpu before = saved_;
  if (Status status = save_lock(holder, ClockDomain::kGraphics); !status) {
    return std::move(status).error();
  }
  const std::string from =
      clock_changes_.changes.empty() && graphics_lock_ ? text_of(*graphics_lock_) : "";
  graphics_lock_.reset();
  ++clock_calls_;
  Status set = gpu_->set_locked_clocks(ClockDomain::kGraphics, range);
  if (!set) {
    forget_unless_changed(set.error().code, before);
    if (!last_clock_failure_ || *last_clock_failure_ + kGatheredFor <= now) {
      last_clock_failure_ = now;
      AuditEntry line = entry(holder, action_of(ClockDomain::kGraphics), "", text_of(clock));
      line.result = "failed: " + set.error().text();
      (void)services_.audit.write(line);
    }
    return std::move(set).error();
  }
  graphics_lock_ = range;
  if (clock_changes_.changes.empty()) {
    clock_changes_ = entry(holder, "clock_changes", from, "");
    clock_changes_.result = "applied";
    first_change_ = now;
  }
  clock_changes_.changes.emplace_back((now - first_change_).value, clock.value);
  return clock;
}

std::optional<Instant> GpuControl::clock_changes_due() const {
  if (clock_changes_.changes.empty()) return std::nullopt;
  return first_change_ + kGatheredFor;
}

Status GpuControl::flush_clock_changes() {
  if (clock_changes_.changes.empty()) return ok_status();
  Status status = services_.audit.write(clock_changes_);
  if (!status && services_.audit_required) {
    audit_failed_ = true;
    first_change_ = first_change_ + kGatheredFor;  // tried again after as long
    return status;
  }
  audit_failed_ = false;
  clock_changes_ = {};
  return ok_status();
}

// --- Reading.

GpuReading GpuControl::read_power(Instant now) {
  const auto value = [](auto result) {
    return result ? std::optional(*std::move(result)) : std::nullopt;
  };
  GpuReading reading;
  reading.time = now;
  reading.power = value(gpu_->instant_power());
  reading.energy = value(gpu_->total_energy());
  return reading;
}

GpuReading GpuControl::read(Instant now) {
  const auto value = [](auto result) {
    return result ? std::optional(*std::move(result)) : std::nullopt;
  };
  GpuReading reading = read_power(now);
  reading.average_power = value(gpu_->average_power());
  reading.power_limit = value(gpu_->power_limit());
  reading.enforced_power_limit = value(gpu_->enforced_power_limit());
  reading.graphics_clock = value(gpu_->clock(ClockDomain::kGraphics));
  reading.memory_clock = value(gpu_->clock(ClockDomain::kMemory));
  reading.temperature = value(gpu_->temperature());
  reading.utilisation = value(gpu_->utilisation());
  reading.reasons = value(gpu_->event_reasons());
  reading.persistence_mode = value(gpu_->persistence_mode());
  return reading;
}

}  // namespace harpe
