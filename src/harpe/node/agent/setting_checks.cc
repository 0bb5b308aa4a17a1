#include "harpe/node/agent/setting_checks.h"

#include <algorithm>

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
  switch (control_of(setting)) {
    case Control::kClocks:
      return action_of(ClockDomain::kGraphics);
    case Control::kMemoryClocks:
      return action_of(ClockDomain::kMemory);
    case Control::kPowerLimit:
      return "power_limit";
    case Control::kPersistenceMode:
      break;
  }
  return "persistence_mode";
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
    return Error::of(ErrorCode::kRefused, "the agent runs with --dry-run and sets nothing");
  }
  const bool is_lock = setting.kind == Setting::Kind::kLockClocks;
  // A clock that is held back for a while is locked all the same.
  const bool is_set = is_lock ? applied->clocks == setting.clocks
                              : setting.kind != Setting::Kind::kPowerLimit || applied->honoured;
  if (!is_set) return Error::of(ErrorCode::kRefused, applied->text);
  return applied;
}

Status seen_from_agent(Status status, const std::string& gpu) {
  if (status.ok() || status.error().code != ErrorCode::kNoPermission) return status;
  return Error::of(ErrorCode::kNoPermission,
                   "the driver does not let the agent set " + gpu +
                       ": the administrator has to run it as root with CAP_SYS_ADMIN, as its unit "
                       "does (systemctl cat harpe-agent)");
}

}  // namespace harpe::node
