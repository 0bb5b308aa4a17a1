#pragma once
/// \file
/// Random numbers that depend on their purpose and not on the numbers drawn before, so that
/// processes get the same numbers in any order.

#include <cstdint>

namespace harpe {

/// SplitMix64's finaliser (Steele, Lea, Flood, OOPSLA 2014).
constexpr std::uint64_t mixed(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

constexpr std::uint64_t mixed(std::uint64_t seed, std::uint64_t purpose, std::uint64_t number) {
  return mixed(mixed(mixed(seed) ^ purpose) ^ number);
}

/// Returns a uniform number in [0, 1).
constexpr double uniform(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

/// Returns a nearly standard normal number, never beyond 6: the sum of 12 uniform numbers.
constexpr double normal(std::uint64_t bits) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += uniform(bits = mixed(bits));
  return sum;
}

}  // namespace harpe
