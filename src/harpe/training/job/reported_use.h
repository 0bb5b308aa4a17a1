#pragma once
/// \file
/// The time and energy of a rank in an iteration, for energy accounting.

#include "harpe/base/units.h"

namespace harpe::training {

struct ReportedUse {
  Seconds at{};           ///< time of the report, soon after the end of the iteration
  Seconds time{};         ///< of the iteration
  Joules energy{};        ///< of the rank's GPU; NaN if not measured
  Joules energy_error{};  ///< half-width of its 95 % interval
};

}  // namespace harpe::training
