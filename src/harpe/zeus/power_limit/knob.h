#pragma once
/// \file
/// The knob that an optimizer of one job turns: an ordered list of settings of its GPUs, highest
/// first. A setting is a power limit in W or a locked graphics clock in MHz. Optimizers know
/// settings by their position only, so a knob has clocks if they may be set, and limits otherwise.
///
/// Invariant: settings are finite, above 0 and strictly descending. A knob may be empty (GPUs that
/// cannot be set) or have one setting: then the optimizer only measures.

#include <cstddef>
#include <string>
#include <vector>

#include "harpe/base/result.h"

namespace harpe::zeus {

enum class KnobKind : unsigned char { kPowerLimit, kGraphicsClock };

class Knob {
 public:
  Knob() = default;

  /// Fails if settings are not finite, not above 0, or not strictly descending.
  static Result<Knob> make(KnobKind kind, std::vector<double> settings);

  KnobKind kind() const { return kind_; }
  const std::vector<double>& settings() const { return settings_; }
  std::size_t size() const { return settings_.size(); }
  double operator[](std::size_t index) const { return settings_[index]; }
  bool can_choose() const { return settings_.size() > 1; }

  /// Returns, for example, "250 W" or "1200 MHz".
  std::string text(std::size_t index) const;

 private:
  KnobKind kind_ = KnobKind::kPowerLimit;
  std::vector<double> settings_;
};

/// A request of an optimizer to the loop that drives it. The loop calls the optimizer at the start
/// of each step and the end of each epoch, and carries out the returned actions in order. After it
/// closes or pauses a window, it reads the counters and passes seconds and joules to `on_window`,
/// which may return further actions.
struct KnobAction {
  enum class Kind : unsigned char {
    kSet,           ///< put `setting` in force on all GPUs
    kOpenWindow,    ///< begin a measurement
    kCloseWindow,   ///< end the measurement and pass its result to `on_window`
    kCancelWindow,  ///< end the measurement and discard it, without a call of `on_window`
  };
  Kind kind = Kind::kSet;
  std::size_t setting = 0;  ///< position in the knob, for kSet
  friend bool operator==(const KnobAction&, const KnobAction&) = default;
};
using KnobActions = std::vector<KnobAction>;

}  // namespace harpe::zeus
