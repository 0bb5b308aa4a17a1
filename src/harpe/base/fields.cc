#include "harpe/base/fields.h"

#include <algorithm>

#include "harpe/base/text.h"

namespace harpe {
namespace {

using Type = JsonValue::Type;

std::string between(double lowest, double highest) {
  return shortest(lowest) + " to " + shortest(highest);
}

}  // namespace

Fields::Fields(const JsonValue& object, std::string name, Diagnostics& diagnostics)
    : object_(object), name_(std::move(name)), diagnostics_(diagnostics) {
  if (object.type != Type::kObject) {
    diagnostics_.add(object.line, object.column, name_ + ": expected an object");
  }
}

const JsonValue* Fields::any(std::string_view key) {
  known_.emplace_back(key);
  return object_.find(key);
}

const JsonValue* Fields::member(std::string_view key, Type type, const char* expected) {
  const JsonValue* value = any(key);
  if (value == nullptr || value->type == type) return value;
  error(key, std::string("expected ") + expected);
  return nullptr;
}

std::optional<double> Fields::number(std::string_view key, double lowest, double highest) {
  const JsonValue* value = member(key, Type::kNumber, "a number");
  if (value == nullptr) return std::nullopt;
  if (value->number >= lowest && value->number <= highest) return value->number;
  error(key, "expected " + between(lowest, highest));
  return std::nullopt;
}

std::optional<std::int64_t> Fields::integer(std::string_view key, std::int64_t lowest,
                                            std::int64_t highest) {
  const JsonValue* value = member(key, Type::kNumber, "an integer");
  if (value == nullptr) return std::nullopt;
  if (value->is_integer && value->integer >= lowest && value->integer <= highest) {
    return value->integer;
  }
  error(key,
        "expected an integer from " + std::to_string(lowest) + " to " + std::to_string(highest));
  return std::nullopt;
}

std::optional<bool> Fields::boolean(std::string_view key) {
  const JsonValue* value = member(key, Type::kBool, "true or false");
  return value == nullptr ? std::nullopt : std::optional(value->boolean);
}

std::optional<std::string> Fields::text(std::string_view key) {
  const JsonValue* value = member(key, Type::kString, "text");
  return value == nullptr ? std::nullopt : std::optional(value->string);
}

std::optional<std::size_t> Fields::word(std::string_view key,
                                        const std::vector<std::string>& words) {
  const auto given = text(key);
  if (!given) return std::nullopt;
  const auto found = std::ranges::find(words, *given);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  std::string message = "expected one of";
  for (const std::string& word : words) message += (word == words.front() ? " " : ", ") + word;
  error(key, message + ", not " + in_quotes(*given));
  return std::nullopt;
}

std::optional<std::pair<double, double>> Fields::range(std::string_view key, double lowest,
                                                       double highest) {
  const JsonValue* value = member(key, Type::kArray, "a list of two numbers");
  if (value == nullptr) return std::nullopt;
  const auto fits = [&](const JsonValue& item) {
    return item.type == Type::kNumber && item.number >= lowest && item.number <= highest;
  };
  if (value->items.size() != 2 || !std::ranges::all_of(value->items, fits)) {
    error(key, "expected a list of two numbers, each " + between(lowest, highest));
    return std::nullopt;
  }
  const std::pair both(value->items[0].number, value->items[1].number);
  if (both.first <= both.second) return both;
  error(key, "the first number is above the second");
  return std::nullopt;
}

std::optional<std::vector<std::string>> Fields::texts(std::string_view key) {
  const JsonValue* value = any(key);
  if (value == nullptr) return std::nullopt;
  if (value->type == Type::kString) return std::vector{value->string};
  const auto is_text = [](const JsonValue& item) { return item.type == Type::kString; };
  if (value->type != Type::kArray || !std::ranges::all_of(value->items, is_text)) {
    error(key, "expected text or a list of texts");
    return std::nullopt;
  }
  std::vector<std::string> texts;
  for (const JsonValue& item : value->items) texts.push_back(item.string);
  return texts;
}

std::vector<const JsonValue*> Fields::objects(std::string_view key) {
  std::vector<const JsonValue*> objects;
  const JsonValue* value = member(key, Type::kArray, "a list of tables");
  if (value == nullptr) return objects;
  for (const JsonValue& item : value->items) {
    if (item.type == Type::kObject) {
      objects.push_back(&item);
    } else {
      diagnostics_.add(item.line, item.column, std::string(key) + ": expected a table");
    }
  }
  return objects;
}

const JsonValue* Fields::object(std::string_view key) {
  return member(key, Type::kObject, "a table");
}

void Fields::error(std::string_view key, std::string message) {
  const JsonValue* value = object_.find(key);
  const JsonValue& place = value == nullptr ? object_ : *value;
  diagnostics_.add(place.line, place.column, std::string(key) + ": " + std::move(message));
}

void Fields::finish() {
  for (const auto& [key, value] : object_.members) {
    if (std::ranges::find(known_, key) != known_.end()) continue;
    if (diagnostics_.count() >= Diagnostics::kLimit) {
      diagnostics_.add({});  // it is counted only, and there may be millions
      continue;
    }
    std::string message = name_ + " has no key " + in_quotes(key);
    if (const auto near = nearest(key, known_)) message += "; did you mean '" + *near + "'?";
    if (value.key_line > 0) {
      diagnostics_.add(value.key_line, value.key_column, std::move(message));
    } else {
      diagnostics_.add(value.line, value.column, std::move(message));
    }
  }
}

}  // namespace harpe
