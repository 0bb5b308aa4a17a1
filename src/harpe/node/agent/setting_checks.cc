#include "harpe/node/agent/setting_checks.h"

#include <algorithm>
#include <array>

namespace harpe::node {

namespace {

constexpr const char* kPolicy = "the policy";

}  // namespace

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

const char* action_of(const Setting& setting) {
  constexpr std::array kActions{"graphics_clocks", "memory_clocks", "power_limit",
                                "persistence_mode"};
  static_assert(kActions.size() == node::kControlCount);
  return kActions.at(static_cast<std::size_t>(control_of(setting)));
}

Error denied(const std::string& what, const std::string& allowed) {
  return Error::of(ErrorCode::kNoPermission,
                   std::string(kPolicy) + " does not allow " + what + "; it allows " + allowed);
}

Result<Applied> as_asked(Result<Applied> applied, const Setting& setting, bool dry_run) {
  const bool is_limit = control_of(setting) == Control::kPowerLimit;
  if (!applied.ok()) {
    Error error = std::move(applied).error();
    if (error.code == ErrorCode::kNoPermission && error.text().starts_with(kPolicy)) {
      error.diagnostics.back().message +=
          is_limit ? " (power_limit_w in its file)" : " (memory_clocks_mhz in its file)";
    }
    return error;
  }
  if (dry_run) {
    return Error::of(ErrorCode::kRefused, "the agent runs with --dry-run and changes no settings");
  }
  const bool is_lock = setting.kind == Setting::Kind::kLockClocks;
  // A clock lock counts as set even if the GPU temporarily runs at a lower clock.
  const bool is_set = is_lock ? applied->clocks == setting.clocks
                              : setting.kind != Setting::Kind::kPowerLimit || applied->honoured;
  if (!is_set) return Error::of(ErrorCode::kRefused, applied->text);
  return applied;
}

Status seen_from_agent(Status status, const std::string& gpu) {
  if (status.ok() || status.error().code != ErrorCode::kNoPermission) return status;
  return Error::of(ErrorCode::kNoPermission,
                   "the driver does not allow the agent to set " + gpu +
                       ": the administrator has to run it as root with CAP_SYS_ADMIN, as its unit "
                       "does (systemctl cat harpe-agent)");
}

namespace {

template <class Range, class Text>
std::string joined(const std::vector<Range>& ranges, Text text) {
  if (ranges.empty()) return "none";
  std::string all;
  for (const Range& range : ranges) {
    if (!all.empty()) all += " or ";
    all += text(range);
  }
  return all;
}

std::string text_of_lock(const SavedLock& lock) {
  return lock.range ? text_of(*lock.range) : "not locked";
}

}  // namespace

std::string text_of(const std::vector<ClockRange>& ranges) {
  return joined(ranges, [](const ClockRange& range) { return text_of(range); });
}

std::string text_of(const std::vector<Allowance::WattRange>& ranges) {
  return joined(ranges, [](const Allowance::WattRange& range) {
    return text_of(range.lowest) + " to " + text_of(range.highest);
  });
}

std::string text_of(const SavedGpu& saved) {
  std::string all;
  const auto add = [&](const std::string& part) { all += (all.empty() ? "" : ", ") + part; };
  if (saved.graphics) add("graphics clocks " + text_of_lock(*saved.graphics));
  if (saved.memory) add("memory clocks " + text_of_lock(*saved.memory));
  if (saved.power_limit) add("power limit " + text_of(*saved.power_limit));
  if (saved.persistence_mode) {
    add(std::string("persistence mode ") + (*saved.persistence_mode ? "on" : "off"));
  }
  return all;
}

}  // namespace harpe::node
