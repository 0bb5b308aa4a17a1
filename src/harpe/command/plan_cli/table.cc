#include "harpe/command/plan_cli/table.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "harpe/base/text.h"
#include "harpe/command/command/console.h"

namespace harpe {
namespace {

/// Columns on the terminal of UTF-8 text without wide characters.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

constexpr std::size_t kGap = 2;

/// Returns the rows of the table with these columns alone.
std::string text_of_columns(const Table& table, const std::vector<std::size_t>& widths,
                            const std::vector<std::size_t>& columns, bool coloured) {
  std::string result;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const std::vector<std::string>& row = table.rows[r];
    std::string line;
    for (const std::size_t i : columns) {
      if (i >= row.size()) continue;
      const std::string padding(widths[i] - width_of(row[i]), ' ');
      if (i != columns.front()) line += std::string(kGap, ' ');
      line += i < table.left ? row[i] + padding : padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    if (r == 0) line = painted(line, Paint::kDim, coloured);
    if (static_cast<int>(r) == table.marked) line = painted(line, Paint::kBold, coloured);
    result += line + '\n';
  }
  return result;
}

}  // namespace

std::string Table::text(bool coloured, int width) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string result;
  std::vector<std::size_t> columns;
  std::size_t used = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    // A table has at least one column beside the first, however wide.
    if (width > 0 && columns.size() > 1 &&
        used + kGap + widths[i] > static_cast<std::size_t>(width)) {
      result += text_of_columns(*this, widths, columns, coloured) + '\n';
      columns = {0};
      used = widths[0];
    }
    used += (columns.empty() ? 0 : kGap) + widths[i];
    columns.push_back(i);
  }
  return result + text_of_columns(*this, widths, columns, coloured);
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
