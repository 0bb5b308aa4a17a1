#include "harpe/net/http/http_responses.h"

#include <utility>

namespace harpe::net {

HttpResponse json_response(int status, const OrderedJson& document) {
  return {.status = status, .content_type = "application/json", .body = json_line(document)};
}

void end_line(HttpResponse& response) {
  const bool is_json = response.content_type == "application/json";
  if (is_json && !response.body.ends_with('\n')) response.body += '\n';
}

HttpResponse text_response(int status, std::string text) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(text)};
}

HttpResponse error_response(int status, const std::string& message) {
  return json_response(status, {{"error", message}});
}

int http_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput:
      return 400;
    case ErrorCode::kNoPermission:
      return 403;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kConflict:
      return 409;
    case ErrorCode::kInfeasible:
    case ErrorCode::kRefused:
      return 422;
    case ErrorCode::kNotSupported:
      return 501;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      break;
  }
  return 500;
}

HttpResponse native_error(int status, std::string_view code, const std::string& message) {
  HttpResponse response =
      json_response(status, {{"error", {{"code", code}, {"message", message}}}});
  end_line(response);
  return response;
}

HttpResponse native_error(const Error& error) {
  return native_error(http_status(error.code), name_of(error.code), error.text());
}

bool is_native_path(std::string_view path) {
  return path == "/v1" || path.starts_with("/v1/");
}

HttpResponse error_at(std::string_view path, int status, std::string_view code,
                      const std::string& message) {
  return is_native_path(path) ? native_error(status, code, message)
                              : error_response(status, message);
}

HttpResponse wrong_method(const std::string& allowed) {
  HttpResponse response = native_error(405, "invalid_input", "use " + allowed);
  response.headers.emplace_back("Allow", allowed);
  return response;
}

}  // namespace harpe::net
