#include "harpe/base/json_text.h"

namespace harpe {

std::string json_line(const nlohmann::ordered_json& document) {
  return json_lines(document, -1);
}

std::string json_lines(const nlohmann::ordered_json& document, int indent) {
  return document.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

nlohmann::ordered_json own_json(std::string_view text) {
  return nlohmann::ordered_json::parse(text);
}

nlohmann::ordered_json json_or_discarded(std::string_view text) {
  return nlohmann::ordered_json::parse(text, nullptr, false);
}

}  // namespace harpe
