#pragma once
/// \file
/// A JSON reader that keeps positions, for error messages that point into the file. Writing uses
/// nlohmann::json in `.cc` files.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/base/result.h"

namespace harpe {

/// A JSON value and its start in the file (line and column from 1).
struct JsonValue {
  enum class Type : unsigned char { kNull, kBool, kNumber, kString, kArray, kObject };

  Type type = Type::kNull;
  int line = 0;
  int column = 0;
  int key_line = 0;  ///< start of its key, in TOML
  int key_column = 0;
  bool boolean = false;
  double number = 0;
  bool is_integer = false;  ///< true if written as an integer that fits `integer`
  std::int64_t integer = 0;
  std::string string;
  std::vector<JsonValue> items;                            ///< of an array
  std::vector<std::pair<std::string, JsonValue>> members;  ///< of an object, in file order

  // Defined in json.cc, where pairs of this type are complete.
  JsonValue();
  JsonValue(const JsonValue&);
  JsonValue(JsonValue&&) noexcept;
  JsonValue& operator=(const JsonValue&);
  JsonValue& operator=(JsonValue&&) noexcept;
  ~JsonValue();

  /// Returns the member of an object; null if there is none.
  const JsonValue* find(std::string_view key) const;
};

/// Parses one JSON document. Diagnostics: anything outside RFC 8259, a repeated key in one object,
/// a number that is not finite, nesting over 64 levels. The error has line and column.
Result<JsonValue> parse_json(std::string_view text, const std::string& file);

}  // namespace harpe
