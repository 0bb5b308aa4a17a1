#include "harpe/cli/in_place_view.h"

#include <sstream>

#include "harpe/command/console.h"
#include "harpe/plan_cli/fitted_table.h"

namespace harpe {

void InPlaceView::draw(const std::string& text) {
  const auto columns = static_cast<std::size_t>(terminal_size().columns);
  std::size_t up = 0;
  for (const std::size_t width : drawn_) up += width == 0 ? 1 : (width + columns - 1) / columns;
  if (up > 0) out_ << "\x1b[" << up << "A\r\x1b[J";
  drawn_.clear();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) drawn_.push_back(shown_width(line));
  out_ << text << std::flush;
}

std::size_t shown_width(const std::string& line) {
  std::string plain;
  bool painting = false;
  for (const char c : line) {
    if (c == '\x1b') painting = true;
    if (!painting) plain += c;
    if (painting && c == 'm') painting = false;
  }
  return display_width(plain);
}

}  // namespace harpe
