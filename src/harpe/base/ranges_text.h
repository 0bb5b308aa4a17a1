#pragma once
/// \file
/// Whole numbers as short text.

#include <span>
#include <string>

namespace harpe {

/// Returns rising numbers with runs of consecutive numbers as ranges: "0-7, 12". Empty for none.
std::string ranges_text(std::span<const int> numbers);

}  // namespace harpe
