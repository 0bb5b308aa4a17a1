#pragma once
/// \file
/// JSON bodies of the lease routes.

#include <string_view>
#include <vector>

#include "harpe/node/agent/controller.h"

namespace harpe {

/// {"gpus": [0, 1], "duration_s": 60, "ends_with_process": true, "name": "train.py",
///  "controls": ["clocks", "memory_clocks", "power_limit", "persistence_mode"]}
Result<LeaseRequest> parse_lease_body(std::string_view body);

/// {"duration_s": 60}
Result<Seconds> parse_renew_body(std::string_view body);

/// {"gpus": [0], "lock_clocks_mhz": [900, 1200]}: the GPUs and exactly one of lock_clocks_mhz,
/// lock_memory_clocks_mhz, reset_clocks, reset_memory_clocks, power_limit_w, reset_power_limit,
/// persistence_mode.
struct SettingBody {
  std::vector<int> gpus;
  Setting setting;
};
Result<SettingBody> parse_setting_body(std::string_view body);

}  // namespace harpe
