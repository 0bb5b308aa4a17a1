#pragma once
/// \file
/// What steps cost under each setting, and what was saved against the first setting, the highest.
///
/// Saved are, over all settings i, n_i (c_0 - c_i): n_i steps began under i, and a step costs c_i =
/// joules + host power x seconds, the mean over those that were measured. A setting under which
/// nothing was measured counts as nothing. Errors are half-widths of 95 % intervals, taken for
/// independent. Pure.

#include <cstdint>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/power_limit/knob.h"

namespace harpe {

/// Of one step.
struct StepCost {
  std::int64_t steps = 0;  ///< measured; 0: the rest means nothing
  Seconds time{};
  Joules energy{}, error{};
};

struct Saving {
  Joules saved{}, error{};
  Joules at_highest{};  ///< what the same steps would have taken there

  Saving& operator+=(const Saving& other);
};

class StepLedger {
 public:
  explicit StepLedger(std::size_t settings) : rows_(settings) {}

  /// A step began.
  void count(std::size_t setting) { ++rows_[setting].begun; }
  /// Steps, one after another, that were measured: all together.
  void add(std::size_t setting, std::int64_t steps, Seconds time, Joules energy, Joules error);

  std::vector<StepCost> costs() const;
  std::vector<std::int64_t> begun() const;
  Saving saving(Watts host_power) const;

 private:
  struct Row {
    std::int64_t begun = 0, measured = 0;
    double seconds = 0, joules = 0, variance = 0;  ///< sums
  };
  std::vector<Row> rows_;
};

}  // namespace harpe
