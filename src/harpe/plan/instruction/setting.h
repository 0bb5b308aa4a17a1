#pragma once
/// \file
/// The setting an instruction runs with: a graphics clock and knobs.
///
///   const harpe::InstructionSetting setting{.clock = {1410}, .knobs = {.power_limit = {250}}};
///   std::puts(harpe::text_of(setting).c_str());  // 1410 MHz, 250 W

#include <compare>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/plan/instruction/knobs.h"

namespace harpe {

/// A graphics clock with knobs, ordered by clock, then by knobs.
struct InstructionSetting {
  Megahertz clock = {};
  Knobs knobs = {};
  friend constexpr bool operator==(const InstructionSetting&, const InstructionSetting&) = default;
  friend constexpr auto operator<=>(const InstructionSetting&, const InstructionSetting&) = default;
};

/// The time from requesting a setting until it is in force: one time for all settings, or a table
/// by requested clock, on which it depends most (arXiv 2502.20075).
class LatencyByClock {
 public:
  struct Entry {
    Megahertz clock;
    Seconds latency;                    ///< upper bound
    std::optional<Seconds> least = {};  ///< lower bound, at most `latency`; nullopt if not known
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  LatencyByClock(Seconds of_all = Seconds{0}) : entries_{{Megahertz{0}, of_all}} {}  // NOLINT
  /// \param entries  at least one, with distinct clocks, in any order
  explicit LatencyByClock(std::vector<Entry> entries);

  /// Returns the upper bound for a clock. For a clock between two entries, returns the larger of
  /// their bounds, as nothing is known between them.
  Seconds to(Megahertz clock) const;
  /// Returns the lower bound for a clock; for a clock between two entries, the smaller of theirs.
  /// An entry without a lower bound counts with `shortest()`.
  Seconds least_to(Megahertz clock) const;
  Seconds longest() const;
  Seconds shortest() const;
  /// Returns true if the latency is a table by clock, not one time for all clocks.
  bool is_table() const { return entries_.front().clock != Megahertz{0}; }
  /// Returns the entries by rising clock; a single entry holds for all clocks.
  std::span<const Entry> entries() const { return entries_; }
  /// Returns a copy in which every upper bound is at least `least`.
  LatencyByClock at_least(Seconds least) const;
  /// Returns a copy without the lower bounds.
  LatencyByClock at_most() const;
  friend bool operator==(const LatencyByClock&, const LatencyByClock&) = default;

 private:
  /// The entries next to a clock, below and above it. Both are the same entry if the table has this
  /// clock, or if the clock is below the lowest or above the highest entry.
  struct Neighbours {
    const Entry& below;
    const Entry& above;
  };
  Neighbours neighbours(Megahertz clock) const;

  std::vector<Entry> entries_;
};

/// Returns the latency as text for people: "0.01 s", "0.005 to 0.2 s".
std::string text_of(const LatencyByClock& latency);

/// Returns the knobs that are set as text for people: "memory 1215 MHz, 250 W, sm12".
std::string text_of(const Knobs& knobs);
/// Returns the setting as text for people: "1410 MHz, memory 1215 MHz, 250 W, sm12".
std::string text_of(const InstructionSetting& setting);

}  // namespace harpe
