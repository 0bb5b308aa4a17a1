#pragma once
/// \file
/// A digest that tells inputs and outputs apart. Not for security.

#include <cstdint>
#include <string>
#include <string_view>

namespace harpe {

/// FNV-1a, 64 bits (Fowler, Noll, Vo). A digest of several texts goes on from that of the ones
/// before.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// "fnv1a64:00f8...", as files say it.
inline std::string digest_text(std::uint64_t hash) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "fnv1a64:";
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(hash >> shift) & 15];
  return text;
}

}  // namespace harpe
