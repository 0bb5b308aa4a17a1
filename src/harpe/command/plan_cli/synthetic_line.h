#pragma once
/// \file
/// What is said first of figures that were not measured.

#include <string>

namespace harpe {

/// `kSyntheticRemark` as the first line of what shows such figures; nothing for others.
std::string synthetic_line(bool is_synthetic, bool coloured);

}  // namespace harpe
