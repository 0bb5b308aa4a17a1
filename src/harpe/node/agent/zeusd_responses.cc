#include "harpe/node/agent/zeusd_responses.h"

#include <algorithm>

namespace harpe {
namespace {

std::string index_text(const std::vector<int>& indices) {
  std::string text;
  for (const int index : indices) text += (text.empty() ? "" : ", ") + std::to_string(index);
  return "[" + text + "]";
}

}  // namespace

int zeusd_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNoPermission:
      return 403;
    case ErrorCode::kInvalidInput:
    case ErrorCode::kInfeasible:
    case ErrorCode::kNotFound:
    case ErrorCode::kNotSupported:
    case ErrorCode::kRefused:
      return 400;
    case ErrorCode::kConflict:
      return 409;
    default:
      return 500;
  }
}

void DeviceErrors::add(int device, const Error& error) {
  std::string& text = texts_[device];
  if (!text.empty()) text += "; ";
  text += error.text();
  status_ = std::max(status_, zeusd_status(error.code));
}

HttpResponse DeviceErrors::response() const {
  OrderedJson errors = OrderedJson::object();
  for (const auto& [device, text] : texts_) errors[std::to_string(device)] = text;
  return json_response(status_, {{"errors", std::move(errors)}});
}

HttpResponse bad_query(const Error& error) {
  return text_response(400, "Query deserialize error: " + error.text());
}

Result<std::optional<std::vector<int>>> optional_indices(const HttpQuery& query,
                                                         const std::string& name,
                                                         const std::string& noun) {
  const auto text = query.find(name);
  if (!text) return std::optional<std::vector<int>>();
  std::vector<int> indices = HARPE_TRY(parse_index_list(*text, noun, name));
  return std::optional(std::move(indices));
}

std::optional<int> first_unknown(const std::vector<int>& indices, std::size_t count) {
  for (const int index : indices) {
    if (static_cast<std::size_t>(index) >= count) return index;
  }
  return std::nullopt;
}

HttpResponse unknown_indices(const std::string& noun, const std::vector<int>& asked,
                             std::size_t count) {
  std::vector<int> unknown;
  std::vector<int> available;
  for (const int index : asked) {
    if (static_cast<std::size_t>(index) >= count) unknown.push_back(index);
  }
  for (std::size_t i = 0; i < count; ++i) available.push_back(static_cast<int>(i));
  return error_response(400, "Unknown " + noun + " indices: " + index_text(unknown) +
                                 ". Available: " + index_text(available));
}

HttpResponse event_stream(std::shared_ptr<EventStream> stream) {
  return {.content_type = "text/event-stream",
          .headers = {{"Cache-Control", "no-cache"}},
          .stream = std::move(stream)};
}

}  // namespace harpe
