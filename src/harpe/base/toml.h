#pragma once
/// \file
/// TOML read with positions, into the same values as JSON.

#include <string>
#include <string_view>

#include "harpe/base/json.h"

namespace harpe {

/// Parses one TOML 1.0 document into an object; tables are objects, arrays of tables are arrays of
/// objects, members stand in file order. Faults: anything outside TOML, dates and times, numbers
/// that are not finite, text that is not UTF-8. Reading stops at the first; it names line and
/// column.
Result<JsonValue> parse_toml(std::string_view text, const std::string& file);

}  // namespace harpe
