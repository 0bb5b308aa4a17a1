#pragma once
/// \file
/// What a server's response to a request that failed means: the inverse of `native_error`.

#include <string>
#include <string_view>

#include "harpe/base/json.h"
#include "harpe/base/result.h"

namespace harpe {

/// The code of that name; else what the HTTP status says.
ErrorCode response_code(std::string_view name, int status);

/// {"error": {"code", "message"}}, {"error": "..."}, or what else said no.
/// \param server  whom the message names: "the agent"
Error response_error(int status, const std::string& body, const std::string& server);

}  // namespace harpe
