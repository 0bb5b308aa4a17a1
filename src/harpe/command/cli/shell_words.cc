#include "harpe/command/cli/shell_words.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <string_view>

#include "harpe/base/text.h"

namespace harpe::command {
namespace {

constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+:,./-=";

std::string quoted(const std::string& word, bool first) {
  const bool plain = !word.empty() && word.find_first_not_of(kPlain) == std::string::npos;
  // A first word with = would set a variable.
  if (plain && !(first && word.find('=') != std::string::npos)) return word;
  std::string text;
  if (std::ranges::none_of(word, is_control)) {
    for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
    return "'" + text + "'";
  }
  for (const char c : word) {
    if (is_control(c)) {
      std::array<char, 8> octal{};  // three digits, so that a digit may follow
      std::snprintf(octal.data(), octal.size(), "\\%03o", static_cast<unsigned char>(c));
      text += octal.data();
    } else {
      if (c == '\'' || c == '\\') text += '\\';
      text += c;
    }
  }
  return "$'" + text + "'";
}

}  // namespace

std::string shell_text(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "" : " ") + quoted(words[i], i == 0);
  }
  return text;
}

}  // namespace harpe::command
