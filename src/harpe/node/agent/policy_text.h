#pragma once
/// \file
/// What a policy allows, and what is saved of a GPU, in words: for answers and the audit log.

#include <string>
#include <vector>

#include "harpe/node/agent/policy.h"
#include "harpe/node/agent/saved_state.h"
#include "harpe/node/node_client/setting_text.h"

namespace harpe::node {

std::string text_of(const SavedGpu& saved);  ///< "power limit 300 W, graphics clocks not locked"
/// "900 to 1410 MHz or 1500 MHz"; "none".
std::string text_of(const std::vector<ClockRange>& ranges);
std::string text_of(const std::vector<Allowance::WattRange>& ranges);

}  // namespace harpe::node
