#pragma once
/// \file
/// Checks of settings against the policy and the GPU. Private to the room.

#include <cmath>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/node/agent/controller.h"
#include "harpe/node/agent/policy.h"
#include "harpe/node/agent/saved_state.h"
#include "harpe/node/node_client/lease.h"

namespace harpe::node {

/// Returns true if two power limits are equal up to rounding: drivers count in mW, some in watts.
inline bool same_limit(Watts a, Watts b) {
  return std::abs((a - b).value) <= 0.5;
}

/// Returns true if one of the allowed ranges contains `range`.
bool is_within(ClockRange range, const std::vector<ClockRange>& allowed);
const std::vector<ClockRange>& allowed_clocks(const Allowance& allowance, ClockDomain domain);
/// \param clocks  in ascending order, not empty
Megahertz nearest_clock(const std::vector<Megahertz>& clocks, Megahertz wanted);
/// Returns the action in the audit log, such as "graphics_clocks".
const char* action_of(ClockDomain domain);
const char* action_of(const Setting& setting);
/// Returns the error of a setting that the policy does not allow.
Error denied(const std::string& what, const std::string& allowed);
/// Returns the applied setting, or an error if it is not in force exactly as requested, with the
/// line of the policy that forbids it.
Result<Applied> as_asked(Result<Applied> applied, const Setting& setting, bool dry_run);
/// Returns `status`, with another remedy if the driver denies permission: its error suggests using
/// the agent, but this process is the agent.
Status seen_from_agent(Status status, const std::string& gpu);

// Allowed ranges and saved settings as text, for responses and the audit log.

std::string text_of(const SavedGpu& saved);  ///< "power limit 300 W, graphics clocks not locked"
/// Returns ranges as text: "900 to 1410 MHz or 1500 MHz"; "none".
std::string text_of(const std::vector<ClockRange>& ranges);
std::string text_of(const std::vector<Allowance::WattRange>& ranges);

}  // namespace harpe::node
