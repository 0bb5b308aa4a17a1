#pragma once
/// \file
/// What setting a job should have where none may be set, by one measurement and the model of
/// power_limit/setting_model.h, fitted to other jobs: a forecast, and said to be one. Pure.

#include <optional>

#include "harpe/zeus/power_limit/knob.h"
#include "harpe/zeus/power_limit/selector.h"

namespace harpe {

struct Advice {
  std::size_t setting = 0;  ///< position in the knob
  double slowdown = 0;      ///< fraction of the highest setting's time
  double saving = 0;        ///< fraction of its joules, of the GPUs alone
};

/// \param highest  measured at the knob's first setting
/// None where no lower setting promises 1 % within the selector's bound.
std::optional<Advice> advise(const Knob& knob, const Measurement& highest,
                             const Selector& selector);

}  // namespace harpe
