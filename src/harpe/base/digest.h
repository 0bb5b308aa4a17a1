#pragma once
/// \file
/// Digests of inputs and outputs, for comparing them. Not for security.

#include <cstdint>
#include <string>
#include <string_view>

namespace harpe {

/// Returns the 64-bit FNV-1a hash (Fowler, Noll, Vo) of the text. For several texts, pass the hash
/// of the preceding texts as `hash`.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// Returns the number as 16 hexadecimal digits: "00f8...".
inline std::string hexadecimal(std::uint64_t number) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(number >> shift) & 15];
  return text;
}

/// Returns the hash in the notation of files: "fnv1a64:00f8...".
inline std::string digest_text(std::uint64_t hash) {
  return "fnv1a64:" + hexadecimal(hash);
}

}  // namespace harpe
