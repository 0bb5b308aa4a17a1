#pragma once
/// \file
/// The steps from the page of a plan to a training that runs by plans.

#include <vector>

#include "harpe/command/plan_cli/plan_job.h"
#include "harpe/report/report.h"

namespace harpe {

struct Planned;

/// Returns the steps: measure one's own profile, look without setting anything, train, and the bill
/// of a cluster if the job has not asked for it.
/// \param command  the command line that made the plan
std::vector<ReportStep> next_steps(const PlanJob& job, const Planned& planned,
                                   const std::string& command);

}  // namespace harpe
