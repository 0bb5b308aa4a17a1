#include "harpe/lab/emulation/throttled_pipelines.h"

#include <algorithm>
#include <utility>

namespace harpe::lab {

double throttled_slowdown(EmulatedCluster& cluster, std::size_t plan, Megahertz held_to) {
  return std::max(
      1.0, cluster.makespan(cluster.throttled(plan, held_to), 1) / cluster.makespan(plan, 1));
}

void ThrottledPipelines::set(std::span<const double> slowdowns,
                             std::span<const Megahertz> held_to) {
  slowdowns_.assign(slowdowns.begin(), slowdowns.end());
  held_to_ = held_to;
  hot_.clear();
  for (std::size_t p = 0; p < held_to.size(); ++p) {
    if (held_to[p] == Megahertz{0}) continue;
    hot_.push_back(p);
    const auto [slowdown, is_new] = at_all_max_.try_emplace(held_to[p], 1);
    if (is_new) slowdown->second = throttled_slowdown(cluster_, all_max_, held_to[p]);
    slowdowns_[p] *= slowdown->second;
  }
}

std::span<const std::size_t> ThrottledPipelines::throttled(std::span<const std::size_t> plans,
                                                           std::vector<std::size_t>& buffer) {
  if (hot_.empty()) return plans;
  buffer.assign(plans.begin(), plans.end());
  for (const std::size_t p : hot_) buffer[p] = cluster_.throttled(plans[p], held_to_[p]);
  return buffer;
}

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

}  // namespace harpe::lab
