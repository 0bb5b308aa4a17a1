#pragma once
/// \file
/// Profiles, schedules and plans as a user gives them to a command, plain or compressed by gzip,
/// and warnings about them.

#include <optional>
#include <string>

#include "harpe/base/result.h"
#include "harpe/command/command/console.h"
#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe::command {

/// Reads the file; says which separator was taken, where it is no comma.
Result<Profile> given_profile(const std::string& file, Console& console);

/// Warns of numbers that are unlikely to be seconds and joules of one GPU; refuses, where asked to,
/// those that cannot be.
Status check_units(const Profile& profile, const std::string& file, bool refuse, Console& console);

/// Reads a schedule in any form (parse_schedule).
Result<Schedule> given_schedule(const std::string& file,
                                TorchDialect dialect = TorchDialect::kDetect, int copies = 1);

/// Reads a plan, or that of a folder (plan_file).
Result<Plan> given_plan(const std::string& file);

/// The plan itself where `file` is a folder that `harpe plan --out` wrote.
std::string plan_file(const std::string& file);

/// Warns if the schedule has another number of chunks a stage than the command line gives, because
/// schedules of that name have a fixed number.
void warn_of_chunks(std::optional<int> given, const Schedule& schedule, Console& console);

/// `kSyntheticRemark` as the first line of what shows such figures; nothing for others.
std::string synthetic_line(bool is_synthetic, bool coloured);

}  // namespace harpe::command
