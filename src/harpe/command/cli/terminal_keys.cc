#include "harpe/command/cli/terminal_keys.h"

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

namespace harpe::command {
namespace {

/// What follows ESC [ or ESC O, as xterm, the Linux console, rxvt and tmux send it.
constexpr std::array<std::pair<std::string_view, Key>, 12> kSequences{{{"A", Key::kUp},
                                                                       {"B", Key::kDown},
                                                                       {"H", Key::kHome},
                                                                       {"F", Key::kEnd},
                                                                       {"1~", Key::kHome},
                                                                       {"4~", Key::kEnd},
                                                                       {"5~", Key::kPageUp},
                                                                       {"6~", Key::kPageDown},
                                                                       {"7~", Key::kHome},
                                                                       {"8~", Key::kEnd},
                                                                       {"1;1A", Key::kUp},
                                                                       {"1;1B", Key::kDown}}};

std::optional<Key> key_of(std::string_view sequence) {
  for (const auto& [text, key] : kSequences) {
    if (text == sequence) return key;
  }
  return std::nullopt;
}

/// Bytes of a control sequence after its introducer: parameters, then one final byte (ECMA-48).
std::size_t length_of(std::string_view rest) {
  std::size_t end = 0;
  while (end < rest.size() && rest[end] >= 0x20 && rest[end] < 0x40) ++end;
  return end < rest.size() ? end + 1 : end;
}

}  // namespace

std::vector<KeyPress> keys_of(std::string_view bytes) {
  std::vector<KeyPress> keys;
  while (!bytes.empty()) {
    const char first = bytes[0];
    bytes.remove_prefix(1);
    if (first != '\x1b') {
      if (first >= ' ' && first <= '~') keys.push_back({Key::kCharacter, first});
      continue;
    }
    if (bytes.empty() || (bytes[0] != '[' && bytes[0] != 'O')) {
      keys.push_back({Key::kEscape, 0});
      continue;
    }
    bytes.remove_prefix(1);
    const std::size_t length = length_of(bytes);
    if (const auto key = key_of(bytes.substr(0, length))) keys.push_back({*key, 0});
    bytes.remove_prefix(length);
  }
  return keys;
}

}  // namespace harpe::command
