#pragma once
/// \file
/// Responses in JSON, and the HTTP form of errors. Include only in `.cc` files.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "harpe/base/json_text.h"
#include "harpe/base/result.h"
#include "harpe/net/http/http_message.h"

namespace harpe::net {

using OrderedJson = nlohmann::ordered_json;

HttpResponse json_response(int status, const OrderedJson& document);
/// Ends JSON with a newline, for readers in a terminal. All responses of Harpe's own routes end
/// with one; routes of Zeus's servers respond with exactly the bytes of those servers.
void end_line(HttpResponse& response);
HttpResponse text_response(int status, std::string text);
/// Returns {"error": "..."}, the form of zeusd's errors.
HttpResponse error_response(int status, const std::string& message);

/// Returns the HTTP status of an error code. The only such table.
int http_status(ErrorCode code);
/// Returns {"error": {"code": ..., "message": ...}}, the form of errors of Harpe's own routes.
HttpResponse native_error(const Error& error);
HttpResponse native_error(int status, std::string_view code, const std::string& message);

/// Returns true if a path is below /v1, where all errors have the form above; errors of other
/// routes have zeusd's form.
bool is_native_path(std::string_view path);
/// Returns an error in the form of the path's routes.
HttpResponse error_at(std::string_view path, int status, std::string_view code,
                      const std::string& message);

/// Returns a 405 with the allowed methods: "GET, POST".
HttpResponse wrong_method(const std::string& allowed);

}  // namespace harpe::net
