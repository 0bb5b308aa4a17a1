#pragma once
/// \file
/// Responses in JSON, and what errors become in HTTP. Only for `.cc` files.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "harpe/base/json_text.h"
#include "harpe/base/result.h"
#include "harpe/net/http/http_message.h"

namespace harpe::net {

using OrderedJson = nlohmann::ordered_json;

HttpResponse json_response(int status, const OrderedJson& document);
/// Ends JSON with a newline, for those who read it in a terminal. All responses of Harpe's own
/// routes do; routes that Zeus's servers have respond to the byte as those do.
void end_line(HttpResponse& response);
HttpResponse text_response(int status, std::string text);
/// {"error": "..."}, as zeusd says what is wrong.
HttpResponse error_response(int status, const std::string& message);

/// The one table from codes to HTTP status.
int http_status(ErrorCode code);
/// {"error": {"code": ..., "message": ...}}: Harpe's own routes.
HttpResponse native_error(const Error& error);
HttpResponse native_error(int status, std::string_view code, const std::string& message);

/// Whether a path is below /v1, where every error has the form above; other routes have zeusd's.
bool is_native_path(std::string_view path);
/// An error in the form of the path's routes.
HttpResponse error_at(std::string_view path, int status, std::string_view code,
                      const std::string& message);

/// 405 with what is allowed: "GET, POST".
HttpResponse wrong_method(const std::string& allowed);

}  // namespace harpe::net
