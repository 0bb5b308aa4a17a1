#pragma once
/// \file
/// A warning about `--chunks`.

#include <optional>

#include "harpe/command/command/console.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe {

/// Warns if the schedule has another number of chunks a stage than the command line gives, because
/// schedules of that name have a fixed number.
void warn_of_chunks(std::optional<int> given, const Schedule& schedule, Console& console);

}  // namespace harpe
