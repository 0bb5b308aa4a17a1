#include "harpe/command/command/text_layout.h"

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/command/command/console.h"

namespace harpe::command {
namespace {

constexpr std::size_t kGap = 2;

bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// A displayed column of a table.
struct ShownColumn {
  std::size_t index = 0;  ///< in the table's columns
  std::size_t natural = 0;
  std::size_t width = 0;
};

std::size_t natural_width(const Table& table, std::size_t column) {
  std::size_t width = display_width(table.columns[column].heading);
  for (const Table::Row& row : table.rows)
    width = std::max(width, display_width(row.cells[column]));
  return width;
}

std::size_t width_of(const std::vector<ShownColumn>& columns) {
  std::size_t width = columns.empty() ? 0 : kGap * (columns.size() - 1);
  for (const ShownColumn& column : columns) width += column.width;
  return width;
}

/// Returns the columns that are not left out. If possible, they are no wider than `limit` together.
std::vector<ShownColumn> fitted(const Table& table, std::size_t limit) {
  std::vector<ShownColumn> shown;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const std::size_t natural = natural_width(table, i), narrowest = table.columns[i].narrowest;
    shown.push_back({i, natural, narrowest == 0 ? natural : std::min(natural, narrowest)});
  }
  const auto rank_of = [&](const ShownColumn& column) { return table.columns[column.index].rank; };
  while (width_of(shown) > limit) {
    const auto least = std::ranges::max_element(shown, {}, rank_of);
    if (rank_of(*least) == 0) break;
    shown.erase(least);
  }
  for (ShownColumn& column : shown) {
    const std::size_t used = width_of(shown);
    if (used < limit) column.width += std::min(column.natural - column.width, limit - used);
  }
  return shown;
}

/// Returns the lines of the table with only these columns.
std::string text_of_columns(const Table& table, const std::vector<ShownColumn>& columns,
                            bool coloured) {
  const auto line_of = [&](const auto& cell) {
    std::string line;
    for (const ShownColumn& column : columns) {
      line += std::string(&column == &columns.front() ? 0 : kGap, ' ') +
              padded(cut_to(cell(column.index), column.width), column.width,
                     table.columns[column.index].align);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
  };
  std::string text = painted(line_of([&](std::size_t i) { return table.columns[i].heading; }),
                             Paint::kDim, coloured) +
                     '\n';
  for (const Table::Row& row : table.rows) {
    const std::string line = line_of([&](std::size_t i) { return row.cells[i]; });
    text += (row.bold ? painted(line, Paint::kBold, coloured) : line) + '\n';
  }
  return text;
}

}  // namespace

std::size_t display_width(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, continues_character));
}

std::string cut_to(const std::string& text, std::size_t width) {
  if (display_width(text) <= width) return text;
  if (width == 0) return {};
  std::size_t end = 0;
  for (std::size_t shown = 0; shown + 1 < width; ++shown) {
    do {
      ++end;
    } while (end < text.size() && continues_character(text[end]));
  }
  return text.substr(0, end) + "…";
}

std::string padded(const std::string& text, std::size_t width, Align align) {
  const std::string blanks(width - std::min(width, display_width(text)), ' ');
  return align == Align::kLeft ? text + blanks : blanks + text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  return lines;
}

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  std::string text;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) text += between;
    text += part;
  }
  return text;
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
  for (const std::string& line : lines_of(text))
    wrapped += line.empty() ? "\n" : wrapped_text(line, width, indent);
  return wrapped;
}

Table Table::of(const std::vector<std::string>& headings, std::size_t left) {
  Table table{.columns = {}};
  for (std::size_t i = 0; i < headings.size(); ++i) {
    table.columns.push_back(
        {.heading = headings[i], .align = i < left ? Align::kLeft : Align::kRight});
  }
  return table;
}

void Table::add(std::vector<std::string> cells, bool bold) {
  cells.resize(columns.size());
  rows.push_back({std::move(cells), bold});
}

void Table::drop_empty_columns() {
  for (std::size_t i = columns.size(); i-- > 0;) {
    if (!std::ranges::all_of(rows, [&](const Row& row) { return row.cells[i].empty(); })) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    columns.erase(columns.begin() + at);
    for (Row& row : rows) row.cells.erase(row.cells.begin() + at);
  }
}

std::string Table::text(bool coloured, int width) const {
  const std::size_t limit = width > 0 ? static_cast<std::size_t>(width) : std::size_t{1} << 30;
  std::string result;
  std::vector<ShownColumn> group;
  for (const ShownColumn& column : fitted(*this, limit)) {
    // A table has at least one column in addition to the first, however wide.
    if (group.size() > 1 && width_of(group) + kGap + column.width > limit) {
      result += text_of_columns(*this, group, coloured) + '\n';
      group.resize(1);
    }
    group.push_back(column);
  }
  return result + text_of_columns(*this, group, coloured);
}

}  // namespace harpe::command
