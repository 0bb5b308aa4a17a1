#pragma once
/// \file
/// Many whole numbers in few words.

#include <span>
#include <string>

namespace harpe {

/// "0-7, 12": rising numbers, those that follow each other as a range. Empty for none.
std::string ranges_text(std::span<const int> numbers);

}  // namespace harpe
