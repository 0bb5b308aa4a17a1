#pragma once
/// \file
/// A profile as a user gives it to a command, and what about it should be said.

#include <string>

#include "harpe/base/result.h"
#include "harpe/command/console.h"
#include "harpe/profile/profile.h"

namespace harpe {

/// Reads the file; says which separator was taken, where it is no comma.
Result<Profile> given_profile(const std::string& file, Console& console);

/// Warns of numbers that are unlikely to be seconds and joules of one GPU; refuses, where asked to,
/// those that cannot be.
Status check_units(const Profile& profile, const std::string& file, bool refuse, Console& console);

/// The plan itself where `file` is a folder that `harpe plan --out` wrote.
std::string plan_file(const std::string& file);

}  // namespace harpe
