#pragma once
/// \file
/// Keys that a terminal sends.

#include <string_view>
#include <vector>

namespace harpe::command {

enum class Key : unsigned char {
  kCharacter,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEscape,
};

struct KeyPress {
  Key key = Key::kCharacter;
  char character = 0;  ///< printable ASCII, of `kCharacter`
  friend bool operator==(const KeyPress&, const KeyPress&) = default;
};

/// What was pressed, of bytes as they were read at once: an escape that nothing follows is the
/// escape key. Other sequences, and what is not printable ASCII, are left out.
std::vector<KeyPress> keys_of(std::string_view bytes);

}  // namespace harpe::command
