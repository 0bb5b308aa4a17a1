#pragma once
/// \file
/// A TOML reader that keeps positions and returns the same values as the JSON reader.

#include <string>
#include <string_view>

#include "harpe/base/json.h"

namespace harpe {

/// Reads a document into an object: tables are objects, arrays of tables are arrays of objects,
/// members are in file order and have the positions of their keys. The `string` of a number is its
/// text, without `_` and a leading `+`. Skips a line with an error and continues after it, to
/// report all diagnostics together. Text over several lines, dates, and numbers that are not finite
/// or not decimal have diagnostics of their own. O(text x log k) for k keys per table.
JsonValue read_toml(std::string_view text, Diagnostics& diagnostics);

/// Reads a document like `read_toml`, as a result.
Result<JsonValue> parse_toml(std::string_view text, const std::string& file);

}  // namespace harpe
