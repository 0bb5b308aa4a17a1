#pragma once
/// \file
/// What an optimizer of one job turns: an ordered list of settings of its GPUs, highest first. A
/// setting is a power limit in W or a locked graphics clock in MHz; optimizers know settings by
/// their position alone, so that clocks serve where they may be set and limits otherwise.
///
/// Invariant: settings are finite, above 0 and strictly descending. A knob may be empty (GPUs that
/// cannot be set) or have one setting: then there is nothing to choose, only to measure.

#include <cstddef>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe::zeus {

enum class KnobKind : unsigned char { kPowerLimit, kGraphicsClock };

class Knob {
 public:
  Knob() = default;

  /// Fails for settings that are not finite, not above 0, or not strictly descending.
  static Result<Knob> make(KnobKind kind, std::vector<double> settings);
  /// `highest`, `highest` - `step`, ... not below `lowest`: the limits that Zeus tries.
  static Result<Knob> power_limits(Watts lowest, Watts highest, Watts step = {25});

  KnobKind kind() const { return kind_; }
  const std::vector<double>& settings() const { return settings_; }
  std::size_t size() const { return settings_.size(); }
  double operator[](std::size_t index) const { return settings_[index]; }
  bool can_choose() const { return settings_.size() > 1; }

  /// The settings that a policy allows; may be none.
  Knob within(double lowest, double highest) const;

  /// "250 W", "1200 MHz".
  std::string text(std::size_t index) const;

 private:
  KnobKind kind_ = KnobKind::kPowerLimit;
  std::vector<double> settings_;
};

}  // namespace harpe::zeus
