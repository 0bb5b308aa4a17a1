#pragma once
/// \file
/// A running total over a counter that wraps.
///
/// Model: the kernel shows the low bits of an energy counter as microjoules in [0, range]. It may
/// wrap between two readings, once: how often it did cannot be told from its values. It may also
/// start anew (driver loaded again, firmware after sleep), which looks like a wrap; the two are
/// told apart by power: a wrap that would have taken more than `highest_power` is a new start.
///
/// The total never falls. It is exact as long as readings come more often than the counter wraps. A
/// new start loses what was used between the last reading and it; one that has counted past the
/// last reading before the next is not seen, and loses that reading too. Neither adds
/// anything.

#include <cstdint>
#include <optional>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"

namespace harpe {

/// Not thread-safe.
class EnergyCounter {
 public:
  /// More than any CPU package or its memory draws.
  static constexpr Watts kHighestPower{2000};

  /// \param range_uj  the highest value before the wrap; 0: not known, every fall is a new start.
  explicit EnergyCounter(std::uint64_t range_uj, Watts highest_power = kHighestPower)
      : range_(range_uj), highest_power_(highest_power) {}

  /// Takes the reading `value_uj` made at `now` (not before the one before); returns the energy
  /// since the first reading.
  Joules add(std::uint64_t value_uj, Instant now);

 private:
  struct Reading {
    std::uint64_t value;
    Instant time;
  };

  std::uint64_t range_;
  Watts highest_power_;
  std::uint64_t total_ = 0;  ///< microjoules
  std::optional<Reading> last_;
};

}  // namespace harpe
