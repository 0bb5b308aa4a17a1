#pragma once
/// \file
/// TOML as far as job files go: keys with text, numbers, booleans and lists of them. Tables, dates
/// and text over several lines are faults that say so.

#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"

namespace harpe {

struct TomlScalar {
  enum class Type : unsigned char { kText, kNumber, kBoolean };
  Type type = Type::kText;
  std::string text;  ///< a number as it was written, without `_` and a leading `+`
};

/// `key = value`; lines and columns count from 1, columns in bytes.
struct TomlEntry {
  std::string key;
  int key_line = 0, key_column = 0;
  int line = 0, column = 0;  ///< of the value
  bool is_list = false;
  std::vector<TomlScalar> values;  ///< one, unless it is a list
};

/// Reads the entries in file order. A line with a fault is left out and reading goes on after it,
/// so that all faults come at once. Accepts CRLF and a byte order mark. O(text).
std::vector<TomlEntry> read_flat_toml(std::string_view text, Faults& faults);

}  // namespace harpe
