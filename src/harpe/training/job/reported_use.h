#pragma once
/// \file
/// What a rank used in an iteration, for accounts of energy.

#include "harpe/base/units.h"

namespace harpe::training {

struct ReportedUse {
  Seconds at{};           ///< when it was reported: soon after its end
  Seconds time{};         ///< of the iteration
  Joules energy{};        ///< of the rank's GPU; NaN: it was not measured
  Joules energy_error{};  ///< half-width of its 95 % interval
};

}  // namespace harpe::training
