#pragma once
/// \file
/// The layout of text on a terminal: padding, line breaks and tables. Pure functions. Widths are in
/// columns, of UTF-8 text without wide characters and without colour sequences.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace harpe::command {

/// Width of sentences in files and on terminals.
inline constexpr int kTextColumns = 80;

/// Returns the number of columns that the text takes.
std::size_t display_width(std::string_view text);
/// Returns the text, or its beginning with "…", no wider than `width`.
std::string cut_to(const std::string& text, std::size_t width);

enum class Align : unsigned char { kLeft, kRight };
/// Returns the text with blanks up to `width`; a wider text is returned unchanged.
std::string padded(const std::string& text, std::size_t width, Align align = Align::kRight);

/// Returns the lines of a text, without their line ends.
std::vector<std::string> lines_of(const std::string& text);
/// Returns the parts joined by `between`.
std::string joined(const std::vector<std::string>& parts, std::string_view between = ", ");
/// Returns the text broken at spaces into lines of at most `width`; lines after the first are
/// indented. Words longer than a line are not broken, and numbers stay with their units. Width 0:
/// one line. The result ends with a line end.
std::string wrapped_text(const std::string& text, int width, std::size_t indent = 2);
/// Returns the text with each of its lines wrapped separately.
std::string wrapped_lines(const std::string& text, int width, std::size_t indent = 2);

struct TableColumn {
  std::string heading;
  Align align = Align::kRight;
  int rank = 0;               ///< the highest rank is left out first; 0: never left out
  std::size_t narrowest = 0;  ///< cells may be cut to this width; 0: they are not cut
};

/// A table with a line of headings. Columns are as wide as their widest cell and two blanks apart.
struct Table {
  struct Row {
    std::vector<std::string> cells;  ///< one for each column
    bool bold = false;
  };

  std::vector<TableColumn> columns;
  std::vector<Row> rows{};

  /// Returns an empty table whose first `left` columns align left, the others right.
  static Table of(const std::vector<std::string>& headings, std::size_t left = 1);
  /// Adds a row. Missing cells at its end are empty.
  void add(std::vector<std::string> cells, bool bold = false);
  /// Removes the columns whose cells are all empty.
  void drop_empty_columns();
  /// Returns the lines of the table. If it is wider than the terminal, columns with a rank are left
  /// out first, then cells that may be cut are cut. Columns that still do not fit go into further
  /// tables below, each of which begins with the first column. The selection of columns does not
  /// depend on the cells of columns that may be cut.
  /// \param width  of the terminal; 0: any width fits
  std::string text(bool coloured, int width = 0) const;
};

}  // namespace harpe::command
