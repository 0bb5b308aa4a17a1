#pragma once
/// \file
/// Identifiers that cannot be guessed and do not repeat.

#include <cstddef>
#include <string>

namespace harpe {

/// Returns `bytes` random bytes from the operating system as lower-case hexadecimal digits, two per
/// byte. Blocks until the system has collected randomness, which matters only while it starts.
std::string random_id(std::size_t bytes = 16);

}  // namespace harpe
