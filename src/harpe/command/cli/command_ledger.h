#pragma once
/// \file
/// The energy of a command by interval of UTC, from readings of its window while it ran.

#include <vector>

#include "harpe/carbon/carbon/energy_ledger.h"
#include "harpe/device/measure/energy_monitor.h"

namespace harpe::command {

/// What a command had used at some time of it.
struct EnergySoFar {
  Seconds after{};  ///< its begin
  Joules energy{}, host{};
};
/// Of all devices; CPUs and memory apart.
EnergySoFar energy_so_far(const WindowEnergy& window);

/// When the next interval begins, in seconds since 1970.
double next_boundary(double time, carbon::WholeSeconds step);

/// Spreads what a command used over intervals: between two readings evenly, so that their sum is
/// what the whole window says. Where one reading says more than a later one or the whole, the later
/// holds. Errors are those of the whole, in proportion to the energy: a boundary is known as well
/// as a step of the counter. `readings` by rising time; may be empty.
carbon::EnergyLedger command_ledger(const std::vector<EnergySoFar>& readings,
                                    const WindowEnergy& whole, carbon::WholeSeconds step);

}  // namespace harpe::command
