#pragma once
/// \file
/// Small aligned tables for terminals.

#include <string>
#include <vector>

namespace harpe {

/// Rows of cells; the first row is the heading. Columns are as wide as their widest cell, the first
/// `left` columns align left, the others right; two spaces between columns.
struct Table {
  std::vector<std::vector<std::string>> rows;
  std::size_t left = 1;
  int marked = -1;  ///< index of a row to print bold

  /// \param width  Columns that do not fit are in further tables below, each of which begins with
  ///               the first column; 0: any width fits
  std::string text(bool coloured, int width = 0) const;
};

/// `value` with that many digits after the point.
std::string fixed(double value, int decimals);
/// "5.0 %"; never "-0.0 %".
std::string percent_text(double percent, int decimals);
/// "+5.0 %": a fraction by which something is more.
std::string change_text(double fraction);
/// Seconds with as many digits as matter: "16.0312 s", "4.21 ms".
std::string seconds_text(double seconds);

}  // namespace harpe
