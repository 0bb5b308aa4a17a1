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

namespace harpe::zeus {

enum class KnobKind : unsigned char { kPowerLimit, kGraphicsClock };

class Knob {
 public:
  Knob() = default;

  /// Fails for settings that are not finite, not above 0, or not strictly descending.
  static Result<Knob> make(KnobKind kind, std::vector<double> settings);

  KnobKind kind() const { return kind_; }
  const std::vector<double>& settings() const { return settings_; }
  std::size_t size() const { return settings_.size(); }
  double operator[](std::size_t index) const { return settings_[index]; }
  bool can_choose() const { return settings_.size() > 1; }

  /// "250 W", "1200 MHz".
  std::string text(std::size_t index) const;

 private:
  KnobKind kind_ = KnobKind::kPowerLimit;
  std::vector<double> settings_;
};

/// What an optimizer asks of the loop that drives it. The loop tells it of each step that begins
/// and each epoch that ends, and carries out the actions it gets back, in order. After closing or
/// pausing a window it reads the counters and hands in seconds and joules with `on_window`, which
/// may give further actions.
struct KnobAction {
  enum class Kind : unsigned char {
    kSet,           ///< put `setting` in force on all GPUs
    kOpenWindow,    ///< begin to measure
    kCloseWindow,   ///< end it and hand in what it took
    kCancelWindow,  ///< end it and forget it; `on_window` is not called
  };
  Kind kind = Kind::kSet;
  std::size_t setting = 0;  ///< position in the knob, for kSet
  friend bool operator==(const KnobAction&, const KnobAction&) = default;
};
using KnobActions = std::vector<KnobAction>;

}  // namespace harpe::zeus
