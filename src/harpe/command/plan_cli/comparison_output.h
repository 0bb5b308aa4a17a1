#pragma once
/// \file
/// What `harpe compare` prints and writes.

#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/command/plan_cli/comparison.h"
#include "harpe/command/plan_cli/plan_output.h"

namespace harpe {

std::string comparison_text(const JobComparison& comparison, const PlanJob& job, bool coloured);
/// {"job", "schedule", "objective", "synthetic", "all_max", "policies", "schedules", "notes",
/// "files"}: see docs/formats.md.
std::string comparison_json(const JobComparison& comparison, const PlanJob& job,
                            const std::vector<std::string>& files);

/// comparison.json, schedules.csv, policies.csv, comparison.svg.
std::vector<OutputFile> comparison_files(const JobComparison& comparison, const PlanJob& job);

}  // namespace harpe
