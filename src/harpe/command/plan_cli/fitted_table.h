#pragma once
/// \file
/// Tables for terminals of any width.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace harpe {

/// A column of a `FittedTable`; two spaces stand between columns.
struct FittedColumn {
  std::string heading;
  bool left = false;          ///< aligned
  int rank = 0;               ///< the highest is left out first; 0: never left out
  std::size_t narrowest = 0;  ///< cells may be cut to this width; 0: they are not cut
  std::vector<std::string> cells{};
};

/// Leaves out columns and cuts cells until rows are no wider than the terminal. What cells of a
/// column that may be cut hold does not decide which columns there are.
struct FittedTable {
  std::vector<FittedColumn> columns;
  int marked = -1;  ///< index of a row, not counting the heading, to print bold

  /// At most `width` wide; 0: as wide as it is.
  std::string text(int width, bool coloured) const;
};

/// Columns on the terminal of UTF-8 text without wide characters.
std::size_t display_width(std::string_view text);
/// The text, or its beginning with "…", no wider than `width`.
std::string cut_to(const std::string& text, std::size_t width);
/// Broken at spaces into lines of at most `width`, those after the first with an indent; a word
/// that is longer is not broken. 0: one line. Ends in a line end.
std::string wrapped_text(const std::string& text, int width, std::size_t indent = 2);
/// Each line of a text, wrapped by itself.
std::string wrapped_lines(const std::string& text, int width, std::size_t indent = 2);

/// Columns of sentences that are as wide in files as on terminals.
inline constexpr int kTextColumns = 80;

}  // namespace harpe
