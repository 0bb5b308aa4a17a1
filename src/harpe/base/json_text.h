#pragma once
/// \file
/// JSON values as text on one line. Bytes that are not UTF-8, such as in a name that a client
/// chose, are replaced. Only for `.cc` files: the JSON library is large.

#include <concepts>
#include <nlohmann/json.hpp>
#include <string>

namespace harpe {

inline std::string json_line(const nlohmann::ordered_json& document) {
  return document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}
template <std::same_as<nlohmann::json> Json>
std::string json_line(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace harpe
