#pragma once
/// \file
/// Readers of members shared by JSON documents. Only for `.cc` files: the JSON library is large.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "harpe/base/fields.h"
#include "harpe/base/json.h"
#include "harpe/base/json_text.h"
#include "harpe/base/units.h"

namespace harpe {

// Limits of numbers in external input.
inline constexpr int kHighestClock = 100'000;  // MHz
inline constexpr double kLongestTime = 1e9;    // s
inline constexpr double kMostEnergy = 1e18;    // J
inline constexpr double kMostPower = 1e12;     // W
inline constexpr std::size_t kLongestText = 256;

/// Runs `read(fields, diagnostics)` over the members of an object. \param what  name in messages
template <class Read>
Status read_object(const JsonValue& object, const std::string& what, const std::string& file,
                   Unknown unknown, Read read) {
  Diagnostics diagnostics(file);
  Fields fields(object, what, diagnostics);
  if (diagnostics.empty()) {
    read(fields, diagnostics);
    if (unknown == Unknown::kRefused) fields.finish();
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

/// Parses a document and runs `read(fields, diagnostics, value)` over its members.
template <class Value, class Read>
Result<Value> read_document(std::string_view text, const std::string& what, Read read) {
  const JsonValue document = HARPE_TRY(parse_json(text, what));
  Value value{};
  Status done = read_object(
      document, what, what, Unknown::kRefused,
      [&](Fields& fields, Diagnostics& diagnostics) { read(fields, diagnostics, value); });
  if (!done.ok()) return std::move(done).error();
  return value;
}

/// Returns the `value` of a required member. Adds an error if the member is absent.
template <class Value>
Value needed(Fields& fields, std::string_view key, std::optional<Value> value) {
  if (!value && fields.any(key) == nullptr) fields.error(key, "is missing");
  return std::move(value).value_or(Value{});
}

/// Returns a text of at most `kLongestText` bytes; empty if the member is absent.
inline std::string short_text(Fields& fields, std::string_view key) {
  std::string text = fields.text(key).value_or("");
  if (text.size() > kLongestText) {
    fields.error(key, "is longer than " + std::to_string(kLongestText) + " bytes");
  }
  return text;
}

/// Reads an optional member; `value` stays unchanged if it is absent.
template <class Number>
void read_count(Fields& fields, std::string_view key, int lowest, int highest, Number& value) {
  if (const auto given = fields.integer(key, lowest, highest)) value = static_cast<int>(*given);
}

inline void read_number(Fields& fields, std::string_view key, double lowest, double highest,
                        double& value) {
  if (const auto given = fields.number(key, lowest, highest)) value = *given;
}

/// Returns a list of whole megahertz. Adds an error if it is not a list of at most `most` clocks.
inline std::vector<Megahertz> read_clocks(Fields& fields, std::string_view key, std::size_t most,
                                          int lowest = 0) {
  std::vector<Megahertz> clocks;
  const JsonValue* list = fields.any(key);
  if (list == nullptr || list->type != JsonValue::Type::kArray || list->items.size() > most) {
    fields.error(key, "expected a list of clocks in MHz");
    return clocks;
  }
  clocks.reserve(list->items.size());
  for (const JsonValue& item : list->items) {
    if (!item.is_integer || item.integer < lowest || item.integer > kHighestClock) {
      fields.error(key, "a clock is a whole number of MHz from " + std::to_string(lowest) + " to " +
                            std::to_string(kHighestClock));
      return {};
    }
    clocks.push_back({static_cast<int>(item.integer)});
  }
  return clocks;
}

inline nlohmann::ordered_json clocks_json(const std::vector<Megahertz>& clocks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Megahertz clock : clocks) list.push_back(clock.value);
  return list;
}

/// Returns a number; NaN if the member is null or absent.
inline double number_or_null(Fields& fields, std::string_view key, double lowest, double highest) {
  const JsonValue* value = fields.any(key);
  if (value == nullptr || value->type == JsonValue::Type::kNull)
    return std::numeric_limits<double>::quiet_NaN();
  return fields.number(key, lowest, highest).value_or(0);
}

/// Returns a list of `size` numbers. Adds an error if the member is not such a list.
inline std::vector<double> read_list(Fields& fields, std::string_view key, std::size_t size) {
  std::vector<double> values;
  const JsonValue* list = fields.any(key);
  const bool fits =
      list != nullptr && list->type == JsonValue::Type::kArray && list->items.size() == size &&
      std::ranges::all_of(
          list->items, [](const JsonValue& item) { return item.type == JsonValue::Type::kNumber; });
  if (!fits) {
    fields.error(key, "expected a list of " + std::to_string(size) + " numbers");
    return std::vector<double>(size);
  }
  for (const JsonValue& item : list->items) values.push_back(item.number);
  return values;
}

template <class Unit>
std::vector<Unit> units(const std::vector<double>& values) {
  std::vector<Unit> result;
  for (const double value : values) result.push_back({value});
  return result;
}

template <class Unit>
nlohmann::ordered_json numbers(const std::vector<Unit>& values) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Unit& value : values) {
    if constexpr (std::is_arithmetic_v<Unit>) {
      list.push_back(value);
    } else {
      list.push_back(value.value);
    }
  }
  return list;
}

inline nlohmann::ordered_json null_if_nan(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace harpe
