#pragma once
/// \file
/// A reader of an object's members (JSON or TOML) that collects all errors with their positions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/base/json.h"
#include "harpe/base/result.h"

namespace harpe {

/// The treatment of unknown members. A client's request with an unknown member is refused. Stored
/// state may have been written by a newer Harpe, so its unknown members are ignored.
enum class Unknown : unsigned char { kRefused, kIgnored };

/// A reader of the members of one object. Each function returns nullopt (or null) if the member is
/// absent, and adds an error if it has another type or range. `finish` adds an error for each
/// member that no function has read. Borrows the object and the diagnostics.
class Fields {
 public:
  /// \param name  name of the object in messages: "gpu", "the file"
  Fields(const JsonValue& object, std::string name, Diagnostics& diagnostics);

  /// Returns a number within [lowest, highest].
  std::optional<double> number(std::string_view key, double lowest, double highest);
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t lowest,
                                      std::int64_t highest);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  /// Returns the position of the member's text among `words`.
  std::optional<std::size_t> word(std::string_view key, const std::vector<std::string>& words);
  /// Returns two numbers within the bounds, the second at least the first.
  std::optional<std::pair<double, double>> range(std::string_view key, double lowest,
                                                 double highest);
  /// Returns a list of texts; a single text is a list of one.
  std::optional<std::vector<std::string>> texts(std::string_view key);
  /// Returns a list of objects; empty if the member is absent.
  std::vector<const JsonValue*> objects(std::string_view key);
  const JsonValue* object(std::string_view key);
  /// Returns the member, whatever its type.
  const JsonValue* any(std::string_view key);

  /// Adds an error at the member, or at the object if the member is absent.
  void error(std::string_view key, std::string message);
  /// Adds an error for each member that was not read, with the known name nearest to it.
  void finish();

 private:
  const JsonValue* member(std::string_view key, JsonValue::Type type, const char* expected);

  const JsonValue& object_;
  std::string name_;
  Diagnostics& diagnostics_;
  std::vector<std::string> known_;
};

}  // namespace harpe
