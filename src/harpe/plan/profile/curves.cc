#include "harpe/plan/profile/curves.h"

#include <map>
#include <utility>

namespace harpe::plan {

std::vector<InstructionProfile> curves_of(const InstructionProfile& entry) {
  std::map<Knobs, std::vector<OperatingPoint>> by_knobs;
  for (const OperatingPoint& point : entry.points) by_knobs[point.knobs].push_back(point);
  std::vector<InstructionProfile> curves;
  for (auto& [knobs, points] : by_knobs) {
    curves.push_back({entry.stage, entry.chunk, entry.kind, std::move(points)});
  }
  return curves;
}

}  // namespace harpe::plan
