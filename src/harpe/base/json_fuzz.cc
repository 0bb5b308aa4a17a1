// The parser agrees with nlohmann's on which texts are JSON and on every value. Every position
// points at the first character of its value.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "harpe/base/json.h"

namespace {

using harpe::JsonValue;
using Type = JsonValue::Type;

void require(bool condition) {
  if (!condition) std::abort();
}

nlohmann::json plain(const JsonValue& value) {
  switch (value.type) {
    case Type::kNull:
      return nullptr;
    case Type::kBool:
      return value.boolean;
    case Type::kNumber:
      if (value.is_integer) return value.integer;
      return value.number;
    case Type::kString:
      return value.string;
    case Type::kArray: {
      auto list = nlohmann::json::array();
      for (const JsonValue& item : value.items) list.push_back(plain(item));
      return list;
    }
    case Type::kObject: {
      auto object = nlohmann::json::object();
      for (const auto& [key, item] : value.members) object[key] = plain(item);
      return object;
    }
  }
  std::abort();
}

void check_positions(const JsonValue& value, const std::vector<std::string_view>& lines) {
  require(value.line >= 1 && static_cast<std::size_t>(value.line) <= lines.size());
  const std::string_view line = lines[static_cast<std::size_t>(value.line - 1)];
  require(value.column >= 1 && static_cast<std::size_t>(value.column) <= line.size());
  const char first = line[static_cast<std::size_t>(value.column - 1)];
  static constexpr std::string_view kFirst[] = {"n", "tf", "-0123456789", "\"", "[", "{"};
  require(kFirst[static_cast<std::size_t>(value.type)].find(first) != std::string_view::npos);
  if (value.column > 1) {
    const char before = line[static_cast<std::size_t>(value.column - 2)];
    require(std::string_view(" \t\r[,:").find(before) != std::string_view::npos);
  }
  for (const JsonValue& item : value.items) check_positions(item, lines);
  for (const auto& [key, item] : value.members) check_positions(item, lines);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = harpe::parse_json(text, "f");
  const auto expected = nlohmann::json::parse(text, nullptr, false);
  if (!value.ok()) {
    const auto& diagnostics = value.error().diagnostics;
    require(diagnostics.size() == 1 && diagnostics[0].line >= 1 && diagnostics[0].column >= 1);
    return 0;
  }
  require(!expected.is_discarded() && plain(*value) == expected);
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::vector<std::string_view> lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  check_positions(*value, lines);
  return 0;
}
