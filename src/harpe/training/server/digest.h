#pragma once
/// \file
/// Short names of long texts.

#include <string>
#include <string_view>

namespace harpe {

/// SHA-256, 32 bytes: two texts with one digest cannot be made.
std::string digest_of(std::string_view text);

}  // namespace harpe
