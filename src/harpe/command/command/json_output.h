#pragma once
/// \file
/// JSON documents that commands print. Only for `.cc` files.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harpe/base/json_text.h"
#include "harpe/base/result.h"

namespace harpe::command {

/// Keys stay in the order they were written.
using Json = nlohmann::ordered_json;

/// The document with a line end; bytes that are not UTF-8 are replaced.
inline std::string json_text(const Json& document) {
  return json_lines(document, 2) + "\n";
}

/// A response of a server as `json_text` would write it; as it is, where it is no JSON.
inline std::string indented(const std::string& json) {
  const Json document = json_or_discarded(json);
  return document.is_discarded() ? json : json_text(document);
}

/// {"error": {"code": ..., "diagnostics": [{"file", "line", "column", "message"}]}}; what is not
/// known is null. What the command warned of before it failed stands beside it as "warnings".
std::string error_json(const Error& error, const std::vector<std::string>& warnings = {});

}  // namespace harpe::command
