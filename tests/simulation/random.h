#pragma once
/// \file
/// Random numbers that are the same on every machine and with every library.

#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "harpe/base/digest.h"
#include "harpe/base/units.h"

namespace harpe::simulation {

class Random {
 public:
  /// \param purpose  each has its own sequence, so that drawing more for one does not affect others
  Random(std::uint64_t seed, std::string_view purpose)
      : engine_(seed * 0x9E3779B97F4A7C15U + fnv1a(purpose)) {}

  /// Returns a number from 0 to n - 1; `n` is at least 1.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  /// Returns a number in [0, 1).
  double fraction() { return static_cast<double>(engine_() >> 11) * 0x1.0p-53; }
  bool chance(double probability) { return fraction() < probability; }
  double between(double low, double high) { return low + (high - low) * fraction(); }
  Seconds between(Seconds low, Seconds high) { return Seconds{between(low.value, high.value)}; }
  /// Returns a duration with uniform logarithm: short ones are as likely as long ones.
  Seconds around(Seconds low, Seconds high);
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[below(all.size())];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace harpe::simulation
