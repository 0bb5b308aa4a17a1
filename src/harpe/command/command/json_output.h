#pragma once
/// \file
/// JSON documents that commands print. Include only in `.cc` files.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harpe/base/json_text.h"
#include "harpe/base/result.h"

namespace harpe::command {

/// Keys stay in the order in which they were added.
using Json = nlohmann::ordered_json;

/// Returns the document with a line end; bytes that are not UTF-8 are replaced.
inline std::string json_text(const Json& document) {
  return json_lines(document, 2) + "\n";
}

/// Returns a server's response in the format of `json_text`; unchanged if it is not JSON.
inline std::string indented(const std::string& json) {
  const Json document = json_or_discarded(json);
  return document.is_discarded() ? json : json_text(document);
}

/// Returns {"error": {"code": ..., "diagnostics": [{"file", "line", "column", "message"}]}}, with
/// null for unknown values. Warnings before the failure are beside it as "warnings".
std::string error_json(const Error& error, const std::vector<std::string>& warnings = {});

}  // namespace harpe::command
