#pragma once
/// \file
/// Schedules drawn in text, in units of one forward.

#include <string>
#include <vector>

#include "harpe/plan/schedule/pipeline.h"

namespace harpe {

/// Starts and ends when a forward, a recompute, a weight gradient and an input gradient take 1, a
/// full backward 2, fused instructions the sum of their halves, and fixed-time ones nothing.
struct UnitTimeline {
  std::vector<double> start, duration;  ///< one entry a node of the pipeline
  std::vector<double> busy;             ///< one entry a stage
  double makespan = 0;
};
UnitTimeline unit_timeline(const Pipeline& pipeline);

/// One line a stage, at most `width` columns (0: no limit), cut with "..." where more follows.
std::string draw_schedule(const Pipeline& pipeline, const UnitTimeline& timeline, int width);

}  // namespace harpe
