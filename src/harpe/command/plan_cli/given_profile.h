#pragma once
/// \file
/// Readers of profiles, schedules and plans that a user gives to a command, plain or compressed by
/// gzip, with warnings.

#include <optional>
#include <string>

#include "harpe/base/result.h"
#include "harpe/command/command/console.h"
#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe::command {

/// Reads the file. Reports the separator if it is not a comma.
Result<Profile> given_profile(const std::string& file, Console& console);

/// Warns of numbers that are unlikely to be seconds and joules of one GPU. Refuses impossible
/// numbers if `refuse` is true.
Status check_units(const Profile& profile, const std::string& file, bool refuse, Console& console);

/// Reads a schedule in any form (parse_schedule).
Result<Schedule> given_schedule(const std::string& file,
                                TorchDialect dialect = TorchDialect::kDetect, int copies = 1);

/// Reads a plan file, or the plan of a folder (plan_file).
Result<Plan> given_plan(const std::string& file);

/// Returns the plan's path if `file` is a folder of `harpe plan --out`, otherwise `file`.
std::string plan_file(const std::string& file);

/// Warns if the schedule has another number of chunks per stage than the command line, because
/// schedules of that name have a fixed number.
void warn_of_chunks(std::optional<int> given, const Schedule& schedule, Console& console);

/// Returns `kSyntheticRemark` as the first line of output with synthetic figures; otherwise empty.
std::string synthetic_line(bool is_synthetic, bool coloured);

}  // namespace harpe::command
