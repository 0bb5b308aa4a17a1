#pragma once
/// \file
/// The picture of `harpe compare`: energy over time for each way to set the GPUs, and energy of
/// each schedule with and without a plan.

#include <string>
#include <utility>
#include <vector>

#include "harpe/base/units.h"

namespace harpe::report {

/// One way to set the GPUs.
struct PolicyCurve {
  std::string name;
  std::string remark = {};  ///< under the name: "model of a100-sxm, estimated"
  bool is_ours = false;
  std::pair<Seconds, Joules> at_objective;
  std::vector<std::pair<Seconds, Joules>> points;  ///< fastest first; one point is a mark
};

struct ScheduleBar {
  std::string name;
  Seconds time;             ///< of the fastest plan
  Joules all_max, planned;  ///< iteration energies
};

struct ComparisonPicture {
  std::string title, subtitle;
  std::string schedule;  ///< the schedule of the policies
  bool is_synthetic = false;
  std::vector<PolicyCurve> policies;
  std::vector<ScheduleBar> schedules;
};

/// Returns one SVG document (light background): the chart of the policies above the bars of the
/// schedules. A part without rows is left out.
std::string comparison_svg(const ComparisonPicture& picture);

}  // namespace harpe::report
