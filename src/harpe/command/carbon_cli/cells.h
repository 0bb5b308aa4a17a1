#pragma once
/// \file
/// Cells of the tables that subcommands of `carbon` print.

#include <algorithm>
#include <string>

#include "harpe/base/text.h"

namespace harpe {

/// At the right of so many columns.
inline std::string padded(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}
inline std::string cell(double value, int decimals, std::size_t width) {
  return padded(grouped(value, decimals), width);
}

}  // namespace harpe
