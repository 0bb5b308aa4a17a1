#pragma once
/// \file
/// Where the state file's text is kept: replaced as a whole or not at all, and in space that was
/// taken beforehand, so that a full disk keeps nothing from being saved or restored.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "harpe/base/result.h"

namespace harpe {

/// Not thread-safe.
class StateStorage {
 public:
  virtual ~StateStorage() = default;

  virtual std::string name() const = 0;  ///< for people: its path
  /// What was kept last; nullopt: nothing was. An error where it is not known to be what this agent
  /// kept.
  virtual Result<std::optional<std::string>> load() = 0;
  /// At an error what was kept before stays.
  virtual Status replace(std::string_view text) = 0;
  /// Moves what is kept out of the way, for people to look at; returns its new name.
  virtual Result<std::string> set_aside() = 0;
};

/// Keeps the text in a file of mode 600, filled up with line ends to at least `reserve` bytes. A
/// second file beside it (`.spare`) has as much space; a new text is written there and flushed,
/// then the two exchange their names, so that neither a crash nor a full disk leaves half of one.
std::unique_ptr<StateStorage> make_file_storage(std::filesystem::path path, std::size_t reserve);

}  // namespace harpe
