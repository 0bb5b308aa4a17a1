#pragma once
/// \file
/// A job's pace as JSON, on one line: how it is stored, and what its status shows.

#include <string>

#include "harpe/job/job.h"

namespace harpe {

/// "iteration_time_s", "pause", "resumes", "why"; null where there is none.
std::string pace_json(const Pace& pace);

}  // namespace harpe
