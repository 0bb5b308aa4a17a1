#pragma once
/// \file
/// Text for views on a terminal: bars, lines of history, and sanitized external text. Pure
/// functions; widths are in columns, of text without wide characters.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "harpe/command/command/console.h"

namespace harpe::command {

/// Returns external text (names of devices, processes, jobs) in a form that is safe for a terminal:
/// control characters, marks of direction, characters without width, and bytes that are not UTF-8
/// become '?'.
std::string printable(std::string_view text);

/// Returns the text in ASCII and of the same width, for terminals with other encodings; characters
/// without a counterpart become '?'. Colour sequences stay.
std::string ascii_text(std::string_view text);

/// Returns "[||||   312/400W]": a bar of `width` columns (at least 5), filled to `share` (0 to 1;
/// below 0: unknown), with an ASCII text at its right end.
std::string bar(double share, std::string text, std::size_t width, Paint paint, bool coloured);

/// Returns one character such as "▁▃█" for each level from 0 to 1; a blank if the level is NaN.
std::string spark(std::span<const double> levels);

/// Returns the width on the terminal, without colour sequences.
std::size_t shown_width(std::string_view line);
/// Returns the line cut to `width`; colour sequences stay complete.
std::string cut_painted(std::string_view line, std::size_t width);

}  // namespace harpe::command
