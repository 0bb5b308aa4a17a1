#include "harpe/lab/emulation/power_limited.h"

#include <map>
#include <utility>
#include <vector>

namespace harpe {

Profile at_power_limit(const Profile& profile, Watts limit) {
  std::vector<InstructionProfile> entries(profile.entries().begin(), profile.entries().end());
  for (InstructionProfile& entry : entries) {
    std::map<Knobs, OperatingPoint> highest;  // for each knobs, so far: points come by rising clock
    for (OperatingPoint& point : entry.points) {
      const auto [held, is_first] = highest.try_emplace(point.knobs, point);
      if (is_first || point.energy <= limit * point.time) {
        held->second = point;
      } else {
        point.time = held->second.time;
        point.energy = held->second.energy;
      }
    }
  }
  return profile.with_entries(std::move(entries));
}

}  // namespace harpe
