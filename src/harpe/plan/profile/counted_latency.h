#pragma once
/// \file
/// The latency that plans count, by the program that will ask for their clocks.

#include "harpe/plan/instruction/asking_ahead.h"
#include "harpe/plan/instruction/setting.h"
#include "harpe/plan/profile/profile.h"

namespace harpe::plan {

/// Returns the whole latency for any client, and what remains of it for Harpe's
/// (`remaining_latency`), by the clocks and the shortest computation of the profile.
/// \param profile  that the plan is made for
LatencyByClock counted_latency(const LatencyByClock& latency, ClockClient client,
                               const Profile& profile);

}  // namespace harpe::plan
