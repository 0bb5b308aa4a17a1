#pragma once
/// \file
/// JSON values as text, and back. Only for `.cc` files: the JSON library is large. Its parser and
/// its writer are compiled here once, not in each file that calls them.

#include <concepts>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace harpe {

/// A document on one line. Bytes that are not UTF-8, such as in a name that a client chose, are
/// replaced.
std::string json_line(const nlohmann::ordered_json& document);
template <std::same_as<nlohmann::json> Json>
std::string json_line(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}
/// The same on many lines, by `indent`, without a line end.
std::string json_lines(const nlohmann::ordered_json& document, int indent);

/// The document of a text that Harpe wrote itself. \throws nlohmann::json::parse_error  where it is
/// none
nlohmann::ordered_json own_json(std::string_view text);
/// The document of a text from outside; `is_discarded()` where it is none.
nlohmann::ordered_json json_or_discarded(std::string_view text);

}  // namespace harpe
