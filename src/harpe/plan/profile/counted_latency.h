#pragma once
/// \file
/// The latency that a plan counts, depending on the client that requests its clocks.

#include "harpe/plan/instruction/asking_ahead.h"
#include "harpe/plan/instruction/setting.h"
#include "harpe/plan/profile/profile.h"

namespace harpe::plan {

/// Returns the whole latency for any client, or the remaining latency for Harpe's client
/// (`remaining_latency`), from the clocks and the shortest computation of the profile.
/// \param profile  the profile that the plan is made for
LatencyByClock counted_latency(const LatencyByClock& latency, ClockClient client,
                               const Profile& profile);

}  // namespace harpe::plan
