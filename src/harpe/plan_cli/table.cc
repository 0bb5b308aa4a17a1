#include "harpe/plan_cli/table.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "harpe/base/text.h"
#include "harpe/command/console.h"

namespace harpe {
namespace {

/// Columns on the terminal of UTF-8 text without wide characters.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

std::string Table::text(bool coloured) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string result;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      const std::string padding(widths[i] - width_of(rows[r][i]), ' ');
      if (i > 0) line += "  ";
      line += i < left ? rows[r][i] + padding : padding + rows[r][i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    if (r == 0) line = painted(line, Paint::kDim, coloured);
    if (static_cast<int>(r) == marked) line = painted(line, Paint::kBold, coloured);
    result += line + '\n';
  }
  return result;
}

std::string fixed(double value, int decimals) {
  std::array<char, 400> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return {text.data(), static_cast<std::size_t>(std::clamp(length, 0, 399))};
}

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fixed(seconds, 4) + " s";
  if (seconds >= 1e-3) return fixed(seconds * 1e3, 3) + " ms";
  return fixed(seconds * 1e6, 3) + " us";
}

std::string percent_text(double percent, int decimals) {
  std::string text = fixed(percent, decimals);
  if (text.find_first_not_of("-0.") == std::string::npos && text.front() == '-') text.erase(0, 1);
  return text + " %";
}

std::string change_text(double fraction) {
  const std::string text = fixed(100 * fraction, 1);
  return (text.starts_with('-') ? "" : "+") + text + " %";
}

}  // namespace harpe
