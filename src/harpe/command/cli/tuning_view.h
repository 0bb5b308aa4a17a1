#pragma once
/// \file
/// What `harpe run --optimize` did, for people.

#include <string>

#include "harpe/zeus/tuning/job_tuning.h"

namespace harpe {

/// Lines, in so many columns (0: any).
std::string tuning_text(const TuningReport& report, int columns, bool coloured);

}  // namespace harpe
