#pragma once
/// \file
/// TOML read with positions, into the same values as JSON.

#include <string>
#include <string_view>

#include "harpe/base/json.h"

namespace harpe {

/// Reads a document into an object: tables are objects, arrays of tables arrays of objects, members
/// stand in file order with the positions of their keys. A number keeps its text, without `_` and
/// a leading `+`, in `string`. A line with an error is left out and reading goes on after it, so
/// that all diagnostics come at once. Text over several lines, dates, and numbers that are not
/// finite or not decimal are diagnostics that say so. O(text x log k) where a table has k keys.
JsonValue read_toml(std::string_view text, Diagnostics& diagnostics);

/// The same, as a result.
Result<JsonValue> parse_toml(std::string_view text, const std::string& file);

}  // namespace harpe
