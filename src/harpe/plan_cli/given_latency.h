#pragma once
/// \file
/// `--switch-latency`: a time, or a table of them by clock.

#include <string>

#include "harpe/base/result.h"
#include "harpe/instruction/setting.h"

namespace harpe {

/// Whether a value names a table: a file that is there, a path, or a name that ends in `.csv`.
bool is_latency_table(const std::string& value);
/// The time, or what the table says (profile/latency_table.h); its diagnostics have their place.
Result<LatencyByClock> given_latency(const std::string& value);

}  // namespace harpe
