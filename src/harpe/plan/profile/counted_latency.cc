#include "harpe/plan/profile/counted_latency.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace harpe::plan {

LatencyByClock counted_latency(const LatencyByClock& latency, ClockClient client,
                               const Profile& profile) {
  if (client == ClockClient::kAny) return latency.at_most();
  std::vector<Megahertz> clocks;
  std::optional<Seconds> shortest;
  for (const InstructionProfile& entry : profile.entries()) {
    if (is_fixed_time(entry.kind)) continue;
    for (const OperatingPoint& point : entry.points) {
      clocks.push_back(point.clock);
      shortest = std::min(shortest.value_or(point.time), point.time);
    }
  }
  if (!shortest) return latency.at_most();
  return remaining_latency(latency, clocks, *shortest);
}

}  // namespace harpe::plan
