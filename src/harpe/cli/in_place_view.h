#pragma once
/// \file
/// Text on a terminal that replaces itself.

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

namespace harpe {

/// Not thread-safe.
class InPlaceView {
 public:
  /// `out` is a terminal, standard output; it must outlive this.
  explicit InPlaceView(std::ostream& out) : out_(out) {}

  /// Replaces what was drawn before. A terminal that became narrower since has broken its lines.
  void draw(const std::string& text);

 private:
  std::ostream& out_;
  std::vector<std::size_t> drawn_;  ///< widths of the lines that stand on the terminal
};

/// On the terminal, without the sequences that paint.
std::size_t shown_width(const std::string& line);

}  // namespace harpe
