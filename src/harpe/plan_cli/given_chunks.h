#pragma once
/// \file
/// The number of model chunks that a command line gives.

#include <optional>

#include "harpe/command/console.h"
#include "harpe/schedule/schedule.h"

namespace harpe {

/// Warns if a schedule made by name has another number of chunks a stage than was given: it has a
/// fixed one.
void warn_of_chunks(std::optional<int> given, const Schedule& schedule, Console& console);

}  // namespace harpe
