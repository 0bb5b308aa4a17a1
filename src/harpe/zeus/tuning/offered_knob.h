#pragma once
/// \file
/// Which settings of a job's GPUs there are to try, from what they offer and what a policy allows:
/// the first is what was found, the others are lower and may be set on every one of the GPUs.
///
/// Clocks go down to 45 % of the highest: below that, on every GPU of gpu_model, joules rise again.
/// Lists are thinned to at most 32 clocks and about 20 limits: finer steps than 2 % of time are
/// within what is measured. Pure.

#include <span>
#include <string>
#include <vector>

#include "harpe/node/node_client/lease.h"
#include "harpe/zeus/power_limit/knob.h"

namespace harpe {

struct FoundGpu {
  GpuOffer offer;
  GpuReading found;
};

/// Locked graphics clocks. Empty where some GPU does not tell its clocks; of one setting where no
/// lower one is allowed.
Knob clock_knob(std::span<const FoundGpu> gpus);
/// Power limits, likewise.
Knob limit_knob(std::span<const FoundGpu> gpus);

}  // namespace harpe
