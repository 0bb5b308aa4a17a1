#pragma once
/// \file
/// Lines of a text file that are neither empty nor a `#` comment.

#include <algorithm>
#include <string_view>

#include "harpe/base/text.h"

namespace harpe {

/// Calls `look(number, line)` with each such line, trimmed, and its number from 1 in the file,
/// until `look` returns false. Skips a UTF-8 byte order mark.
template <class Look>
void each_content_line(std::string_view text, Look look) {
  text = without_byte_order_mark(text);
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && !line.starts_with('#') && !look(number, line)) return;
  }
}

}  // namespace harpe
