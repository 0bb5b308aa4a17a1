#include "harpe/command/plan_cli/fitted_table.h"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "harpe/base/text.h"
#include "harpe/command/command/console.h"

namespace harpe {
namespace {

constexpr std::size_t kGap = 2;

bool continues(char byte) {  // a UTF-8 sequence
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

std::size_t natural_width(const FittedColumn& column) {
  std::size_t width = display_width(column.heading);
  for (const std::string& cell : column.cells) width = std::max(width, display_width(cell));
  return width;
}

std::size_t least_width(const FittedColumn& column) {
  const std::size_t natural = natural_width(column);
  return column.narrowest == 0 ? natural : std::min(natural, column.narrowest);
}

std::size_t sum(const std::vector<std::size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), std::size_t{0}) +
         kGap * (widths.empty() ? 0 : widths.size() - 1);
}

}  // namespace

std::size_t display_width(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, continues));
}

std::string cut_to(const std::string& text, std::size_t width) {
  if (display_width(text) <= width) return text;
  if (width == 0) return {};
  std::size_t end = 0;
  for (std::size_t shown = 0; shown + 1 < width; ++shown) {
    do {
      ++end;
    } while (end < text.size() && continues(text[end]));
  }
  return text.substr(0, end) + "…";
}

std::string wrapped_text(const std::string& text, int width, std::size_t indent) {
  if (width <= 0) return text + '\n';
  std::string result;
  std::string line(std::min(text.find_first_not_of(' '), text.size()), ' ');
  for (const std::string& word : unbroken_words(text)) {
    const bool begun = line.find_first_not_of(' ') != std::string::npos;
    if (begun && display_width(line) + 1 + display_width(word) > static_cast<std::size_t>(width)) {
      result += line + '\n';
      line.assign(indent, ' ');
      line += word;
    } else {
      line += (begun ? " " : "") + word;
    }
  }
  return result + line + '\n';
}

std::string wrapped_lines(const std::string& text, int width, std::size_t indent) {
  std::string wrapped;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    wrapped += line.empty() ? "\n" : wrapped_text(line, width, indent);
  return wrapped;
}

std::string FittedTable::text(int width, bool coloured) const {
  std::vector<const FittedColumn*> shown;
  for (const FittedColumn& column : columns) shown.push_back(&column);
  const auto widths_now = [&](auto of) {
    std::vector<std::size_t> widths;
    for (const FittedColumn* column : shown) widths.push_back(of(*column));
    return widths;
  };
  std::vector<std::size_t> widths = widths_now(natural_width);
  if (width > 0) {
    const auto limit = static_cast<std::size_t>(width);
    widths = widths_now(least_width);
    while (sum(widths) > limit) {
      const auto least = std::ranges::max_element(shown, {}, &FittedColumn::rank);
      if ((*least)->rank == 0) break;
      shown.erase(least);
      widths = widths_now(least_width);
    }
    for (std::size_t i = 0; i < shown.size() && sum(widths) < limit; ++i) {
      widths[i] += std::min(natural_width(*shown[i]) - widths[i], limit - sum(widths));
    }
  }
  std::size_t rows = 0;
  for (const FittedColumn& column : columns) rows = std::max(rows, column.cells.size());
  std::string result;
  for (std::size_t row = 0; row <= rows; ++row) {  // row 0: headings
    std::string line;
    for (std::size_t i = 0; i < shown.size(); ++i) {
      const auto& cells = shown[i]->cells;
      const std::string cell = cut_to(row == 0                 ? shown[i]->heading
                                      : row - 1 < cells.size() ? cells[row - 1]
                                                               : "",
                                      widths[i]);
      const std::string padding(widths[i] - display_width(cell), ' ');
      line +=
          std::string(i == 0 ? 0 : kGap, ' ') + (shown[i]->left ? cell + padding : padding + cell);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    if (width > 0) line = cut_to(line, static_cast<std::size_t>(width));
    if (row == 0) line = painted(line, Paint::kDim, coloured);
    if (static_cast<int>(row) == marked + 1 && marked >= 0) {
      line = painted(line, Paint::kBold, coloured);
    }
    result += line + '\n';
  }
  return result;
}

}  // namespace harpe
