#pragma once
/// \file
/// What a step costs under each setting: the mean over the steps that were measured. Errors are
/// half-widths of 95 % intervals, taken for independent. Pure.

#include <cstdint>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/zeus/power_limit/knob.h"

namespace harpe {

/// Of one step.
struct StepCost {
  std::int64_t steps = 0;  ///< measured; 0: the rest means nothing
  Seconds time{};
  Joules energy{}, error{};
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

 private:
  struct Row {
    std::int64_t begun = 0, measured = 0;
    double seconds = 0, joules = 0, variance = 0;  ///< sums
  };
  std::vector<Row> rows_;
};

}  // namespace harpe
