// The cheap path of a clock channel: a clock for every instruction, gathered for the audit log.

#include <algorithm>
#include <utility>

#include "harpe/node/agent/gpu_control.h"
#include "harpe/node/agent/policy_text.h"
#include "harpe/node/agent/setting_checks.h"

namespace harpe {
namespace {

constexpr Seconds kBetweenFailures{1};  ///< lines of the audit log

}  // namespace

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
  const SavedGpu before = saved_;
  HARPE_TRY(save_lock(holder, ClockDomain::kGraphics));
  const std::string from = clock_changes_.empty() && graphics_lock_ ? text_of(*graphics_lock_) : "";
  graphics_lock_.reset();
  ++clock_calls_;
  check_saved(saved_.graphics.has_value());
  Status set = seen_from_agent(gpu_->set_locked_clocks(ClockDomain::kGraphics, range), name());
  if (!set.ok()) {
    forget_unless_changed(set.error().code, before);
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

}  // namespace harpe
