#pragma once
/// \file
/// What `harpe run --optimize` did, for people and as JSON. Only for `.cc` files.

#include <string>

#include "harpe/cli/command_tuning.h"
#include "harpe/command/json_output.h"

namespace harpe {

/// Lines, in so many columns (0: any).
std::string tuning_text(const TuningReport& report, int columns, bool coloured);

/// The member "optimize".
Json tuning_json(const TuningReport& report);

}  // namespace harpe
