#pragma once
/// \file
/// Numbers that are written with a decimal comma, which no reader takes.

#include <string>
#include <string_view>

namespace harpe {

/// Returns "; use a point: 0.10 EUR/kWh" for "0,10 EUR/kWh", the end of a message. Empty if the
/// text has no comma between digits, or more than one comma or point.
std::string decimal_comma_hint(std::string_view text);

}  // namespace harpe
