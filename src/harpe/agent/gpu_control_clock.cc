// The cheap path of a clock channel: a clock for every instruction, gathered for the audit log.

#include <utility>

#include "harpe/agent/gpu_control.h"
#include "harpe/agent/setting_checks.h"
#include "harpe/agent/setting_text.h"

namespace harpe {
namespace {

constexpr std::size_t kMostGathered = 256;
constexpr Seconds kGatheredFor{1};

}  // namespace

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
  Status set = seen_from_agent(gpu_->set_locked_clocks(ClockDomain::kGraphics, range), name());
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

}  // namespace harpe
