#pragma once
/// \file
/// TOML read with positions, into the same values as JSON.

#include <string>
#include <string_view>

#include "harpe/base/json.h"

namespace harpe {

/// Reads a document into an object: tables are objects, arrays of tables arrays of objects, members
/// stand in file order with the positions of their keys. A number keeps its text, without `_` and
/// a leading `+`, in `string`. A line with a fault is left out and reading goes on after it, so
/// that all faults come at once. Text over several lines, dates, and numbers that are not finite
/// or not decimal are faults that say so. O(text + k^2) where a table has k keys.
JsonValue read_toml(std::string_view text, Faults& faults);

/// The same, as a result.
Result<JsonValue> parse_toml(std::string_view text, const std::string& file);

}  // namespace harpe
