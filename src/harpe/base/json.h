#pragma once
/// \file
/// JSON read with positions, so that an error in a file can be pointed at. Writing uses
/// nlohmann::json in `.cc` files.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/base/result.h"

namespace harpe {

/// A JSON value and where it starts in its file (line and column from 1).
struct JsonValue {
  enum class Type : unsigned char { kNull, kBool, kNumber, kString, kArray, kObject };

  Type type = Type::kNull;
  int line = 0;
  int column = 0;
  int key_line = 0;  ///< where its key starts, in TOML
  int key_column = 0;
  bool boolean = false;
  double number = 0;
  bool is_integer = false;  ///< the number was written as an integer that fits `integer`
  std::int64_t integer = 0;
  std::string string;
  std::vector<JsonValue> items;                            ///< of an array
  std::vector<std::pair<std::string, JsonValue>> members;  ///< of an object, in file order

  // Defined where pairs of this type are complete.
  JsonValue();
  JsonValue(const JsonValue&);
  JsonValue(JsonValue&&) noexcept;
  JsonValue& operator=(const JsonValue&);
  JsonValue& operator=(JsonValue&&) noexcept;
  ~JsonValue();

  /// The member of an object, or null.
  const JsonValue* find(std::string_view key) const;
};

/// Parses one JSON document. Diagnostics: anything outside RFC 8259, a key twice in one object, a
/// number that is not finite, nesting over 64 levels. The error names line and column.
Result<JsonValue> parse_json(std::string_view text, const std::string& file);

}  // namespace harpe
