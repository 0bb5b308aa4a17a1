#pragma once
/// \file
/// Detection of numbers with a decimal comma, which no reader accepts.

#include <string>
#include <string_view>

namespace harpe {

/// Returns "; use a point: 0.10 EUR/kWh" for "0,10 EUR/kWh", the end of a message. Empty if the
/// text has no comma between digits, has more than one comma or point, or is over 40 bytes long.
std::string decimal_comma_hint(std::string_view text);

}  // namespace harpe
