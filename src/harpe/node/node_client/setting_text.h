#pragma once
/// \file
/// Settings in words.

#include <string>
#include <vector>

#include "harpe/node/node_client/lease.h"

namespace harpe::node {

std::string list_of(const std::vector<int>& gpus);  ///< "GPU 0", "GPUs 0, 1"
const char* name_of(ClockDomain domain);            ///< "graphics"
std::string text_of(Watts power);                   ///< "300 W", "250.5 W"
std::string text_of(Megahertz clock);               ///< "1410 MHz"
std::string text_of(ClockRange range);              ///< "900 to 1410 MHz", "900 MHz"
std::string text_of(const ClockLock& lock);         ///< "900 MHz", "not locked"
std::string text_of(const Setting& setting);        ///< "graphics clocks 900 MHz"

}  // namespace harpe::node
