#include "harpe/base/toml.h"

#include <algorithm>
#include <cmath>
#include <utility>

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "harpe/base/text.h"

namespace harpe {
namespace {

bool starts_before(const JsonValue& a, const JsonValue& b) {
  return std::pair(a.line, a.column) < std::pair(b.line, b.column);
}

/// `node` with all below it; nesting is limited by the parser.
JsonValue converted(const toml::node& node, Faults& faults) {  // NOLINT(misc-no-recursion)
  JsonValue value;
  value.line = static_cast<int>(node.source().begin.line);
  value.column = static_cast<int>(node.source().begin.column);
  if (const auto* table = node.as_table()) {
    value.type = JsonValue::Type::kObject;
    for (const auto& [key, member] : *table) {
      value.members.emplace_back(std::string(key.str()), converted(member, faults));
    }
    std::ranges::stable_sort(value.members, [](const auto& a, const auto& b) {
      return starts_before(a.second, b.second);
    });
  } else if (const auto* array = node.as_array()) {
    value.type = JsonValue::Type::kArray;
    for (const toml::node& item : *array) value.items.push_back(converted(item, faults));
  } else if (const auto* text = node.as_string()) {
    value.type = JsonValue::Type::kString;
    value.string = text->get();
  } else if (const auto* boolean = node.as_boolean()) {
    value.type = JsonValue::Type::kBool;
    value.boolean = boolean->get();
  } else if (const auto* integer = node.as_integer()) {
    value.type = JsonValue::Type::kNumber;
    value.is_integer = true;
    value.integer = integer->get();
    value.number = static_cast<double>(value.integer);
  } else if (const auto* number = node.as_floating_point()) {
    value.type = JsonValue::Type::kNumber;
    value.number = number->get();
    if (!std::isfinite(value.number)) {
      faults.add(value.line, value.column, "expected a finite number");
    }
  } else {
    faults.add(value.line, value.column, "expected a number, text, true or false, not a date");
  }
  return value;
}

}  // namespace

Result<JsonValue> parse_toml(std::string_view text, const std::string& file) {
  Faults faults(file);
  const toml::parse_result parsed = toml::parse(without_byte_order_mark(text));
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    faults.add(static_cast<int>(error.source().begin.line),
               static_cast<int>(error.source().begin.column), std::string(error.description()));
    return Error::invalid(std::move(faults));
  }
  JsonValue root = converted(parsed.table(), faults);
  if (!faults.empty()) return Error::invalid(std::move(faults));
  return root;
}

}  // namespace harpe
