#include "harpe/base/response_error.h"

#include "harpe/base/text.h"

namespace harpe {
namespace {

std::string text_at(const JsonValue& object, std::string_view key) {
  const JsonValue* member = object.find(key);
  return member != nullptr ? member->string : std::string();
}

}  // namespace

ErrorCode response_code(std::string_view name, int status) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    const auto one = static_cast<ErrorCode>(code);
    if (name_of(one) == name) return one;
  }
  if (status == 401 || status == 403) return ErrorCode::kNoPermission;
  if (status == 404) return ErrorCode::kNotFound;
  if (status == 409) return ErrorCode::kConflict;
  return status >= 500 || status == 429 ? ErrorCode::kUnavailable : ErrorCode::kInvalidInput;
}

Error response_error(int status, const std::string& body, const std::string& server) {
  const Result<JsonValue> document = parse_json(body, "response");
  const JsonValue* error = document.ok() ? document->find("error") : nullptr;
  if (error != nullptr && error->type == JsonValue::Type::kObject) {
    return Error::of(response_code(text_at(*error, "code"), status), text_at(*error, "message"));
  }
  if (error != nullptr && error->type == JsonValue::Type::kString) {
    return Error::of(response_code("", status), error->string);
  }
  return Error::of(response_code("", status),
                   server + " responded " + std::to_string(status) + " " + in_quotes(body, 200));
}

}  // namespace harpe
