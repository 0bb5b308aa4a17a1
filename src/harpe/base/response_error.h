#pragma once
/// \file
/// The error in a server's response to a failed request: the inverse of `native_error`.

#include <string>
#include <string_view>

#include "harpe/base/json.h"
#include "harpe/base/result.h"

namespace harpe {

/// Returns the code with this name; if there is none, the code for the HTTP status.
ErrorCode response_code(std::string_view name, int status);

/// Returns the error in `body`: {"error": {"code", "message"}} or {"error": "..."}. For any other
/// body, the message has the status and the beginning of the body.
/// \param server  name of the server in the message: "the agent"
Error response_error(int status, const std::string& body, const std::string& server);

}  // namespace harpe
