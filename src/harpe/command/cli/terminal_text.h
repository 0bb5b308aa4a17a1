#pragma once
/// \file
/// Text for views on a terminal: bars, lines of history, and text from outside that must not reach
/// a terminal as it is. Pure functions; widths are in columns, of text without wide characters.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "harpe/command/command/console.h"

namespace harpe::command {

/// Text from outside (names of devices, processes, jobs) without what a terminal would take for a
/// command or what hides or turns other text: control characters, marks of direction, characters
/// without width, and bytes that are not UTF-8 become '?'.
std::string printable(std::string_view text);

/// The same text in ASCII and of the same width, for terminals of other encodings; what has no
/// counterpart becomes '?'. Sequences that paint stay.
std::string ascii_text(std::string_view text);

/// "[||||   312/400W]": a bar of `width` columns (5 at least), filled to `share` (0 to 1; below 0:
/// nothing is known), with a text in ASCII at its right end.
std::string bar(double share, std::string text, std::size_t width, Paint paint, bool coloured);

/// "▁▃█": one character for each level from 0 to 1; a blank where the level is not a number.
std::string spark(std::span<const double> levels);

/// On the terminal, without the sequences that paint.
std::size_t shown_width(std::string_view line);
/// The same line no wider than `width`; what paints it stays whole.
std::string cut_painted(std::string_view line, std::size_t width);

}  // namespace harpe::command
