#pragma once
/// \file
/// JSON documents that commands print. Only for `.cc` files.

#include <nlohmann/json.hpp>
#include <string>

#include "harpe/base/result.h"

namespace harpe {

/// Keys stay in the order they were written.
using Json = nlohmann::ordered_json;

/// The document with a line end; bytes that are not UTF-8 are replaced.
inline std::string json_text(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// {"error": {"code": ..., "diagnostics": [{"file", "line", "column", "message"}]}}; what is not
/// known is null.
std::string error_json(const Error& error);

}  // namespace harpe
