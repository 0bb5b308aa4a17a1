#pragma once
/// \file
/// Conversion between JSON values and text. Only for `.cc` files: the JSON library is large. Its
/// parser and its writer are compiled once, here, instead of in each file that calls them.

#include <concepts>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace harpe {

/// Returns a document on one line. Replaces bytes that are not UTF-8, such as in a client's name.
std::string json_line(const nlohmann::ordered_json& document);
template <std::same_as<nlohmann::json> Json>
std::string json_line(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}
/// Returns a document on several lines, indented by `indent`, without a final line end.
std::string json_lines(const nlohmann::ordered_json& document, int indent);

/// Parses a text that Harpe itself wrote. \throws nlohmann::json::parse_error  if it is not JSON
nlohmann::ordered_json own_json(std::string_view text);
/// Parses a text from outside; returns a value with `is_discarded()` if it is not JSON.
nlohmann::ordered_json json_or_discarded(std::string_view text);

}  // namespace harpe
