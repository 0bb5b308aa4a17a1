#pragma once
/// \file
/// All that an instruction runs with: a graphics clock and the knobs beside it.
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

/// Ordered by clock, at one clock by knobs.
struct InstructionSetting {
  Megahertz clock = {};
  Knobs knobs = {};
  friend constexpr bool operator==(const InstructionSetting&, const InstructionSetting&) = default;
  friend constexpr auto operator<=>(const InstructionSetting&, const InstructionSetting&) = default;
};

/// How late a new setting may come into force: one time for all, or by the clock that is asked for,
/// on which it depends most (arXiv 2502.20075).
class LatencyByClock {
 public:
  struct Entry {
    Megahertz clock;
    Seconds latency;                    ///< at most
    std::optional<Seconds> least = {};  ///< at least, as far as is known; not above `latency`
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  LatencyByClock(Seconds of_all = Seconds{0}) : entries_{{Megahertz{0}, of_all}} {}  // NOLINT
  /// \param entries  at least one, no clock twice, in any order
  explicit LatencyByClock(std::vector<Entry> entries);

  /// Of a clock that is not given, the longer one of its neighbours', as nothing is known between.
  Seconds to(Megahertz clock) const;
  /// The least latency, by the same rule the shorter one of its neighbours'. A clock of which none
  /// is known counts with the shortest latency of all clocks.
  Seconds least_to(Megahertz clock) const;
  Seconds longest() const;
  Seconds shortest() const;
  /// Whether it was given by the clock, not as one time for all.
  bool is_table() const { return entries_.front().clock != Megahertz{0}; }
  /// By rising clock; one alone holds for all clocks.
  std::span<const Entry> entries() const { return entries_; }
  /// The same with no clock sooner than `least`.
  LatencyByClock at_least(Seconds least) const;
  /// The same without what is known of least latencies.
  LatencyByClock at_most() const;
  friend bool operator==(const LatencyByClock&, const LatencyByClock&) = default;

 private:
  /// The entries whose clocks are next to one: below and above it, the same if it is given or
  /// beyond the lowest or highest.
  struct Neighbours {
    const Entry& below;
    const Entry& above;
  };
  Neighbours neighbours(Megahertz clock) const;

  std::vector<Entry> entries_;
};

/// For people: "0.01 s", "0.005 to 0.2 s".
std::string text_of(const LatencyByClock& latency);

/// For people: "memory 1215 MHz, 250 W, sm12", what is not given left out.
std::string text_of(const Knobs& knobs);
/// For people: "1410 MHz, memory 1215 MHz, 250 W, sm12".
std::string text_of(const InstructionSetting& setting);

}  // namespace harpe
