#pragma once
/// \file
/// Identifiers that nobody can guess and that do not repeat.

#include <cstddef>
#include <string>

namespace harpe {

/// Returns `bytes` random bytes of the operating system as lower-case hexadecimal digits, two a
/// byte. Waits until the operating system has collected randomness, which matters only while it
/// starts.
std::string random_id(std::size_t bytes = 16);

}  // namespace harpe
