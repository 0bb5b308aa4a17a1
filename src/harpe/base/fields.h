#pragma once
/// \file
/// Checked reading of an object's members (JSON or TOML): every error is kept with its position, so
/// that a user sees all of them at once.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/base/json.h"
#include "harpe/base/result.h"

namespace harpe {

/// What comes from a client has no member that is not known; what is stored may come from a newer
/// Harpe, of which an older one reads what it knows.
enum class Unknown : unsigned char { kRefused, kIgnored };

/// Reads the members of one object. Each function returns nullopt (or null) where the member is
/// absent, and adds an error where it is not what it must be. `finish` adds diagnostics for members
/// that were not asked for. Borrows the object and the diagnostics.
class Fields {
 public:
  /// \param name  what the object is, for messages: "gpu", "the file".
  Fields(const JsonValue& object, std::string name, Diagnostics& diagnostics);

  /// A number within [lowest, highest].
  std::optional<double> number(std::string_view key, double lowest, double highest);
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t lowest,
                                      std::int64_t highest);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  /// One of the words; returns its position among them.
  std::optional<std::size_t> word(std::string_view key, const std::vector<std::string>& words);
  /// Two numbers within the bounds, the second not below the first.
  std::optional<std::pair<double, double>> range(std::string_view key, double lowest,
                                                 double highest);
  /// A list of texts, or one text.
  std::optional<std::vector<std::string>> texts(std::string_view key);
  /// A list of objects.
  std::vector<const JsonValue*> objects(std::string_view key);
  const JsonValue* object(std::string_view key);
  /// The member as it is.
  const JsonValue* any(std::string_view key);

  /// An error at the member, or at the object where it is absent.
  void error(std::string_view key, std::string message);
  /// Adds an error for each member that were not asked for, naming the nearest that could be meant.
  void finish();

 private:
  const JsonValue* member(std::string_view key, JsonValue::Type type, const char* expected);

  const JsonValue& object_;
  std::string name_;
  Diagnostics& diagnostics_;
  std::vector<std::string> known_;
};

}  // namespace harpe
