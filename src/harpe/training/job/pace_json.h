#pragma once
/// \file
/// A job's pace as JSON: how it is set from outside, stored, and shown by its status.

#include <optional>
#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/training/job/job.h"

namespace harpe {
class Fields;
}  // namespace harpe

namespace harpe::training {

/// "iteration_time_s", "pause", "resumes", "why", on one line; null where there is none.
std::string pace_json(const Pace& pace);
/// The same members, each of which may be left out. Errors go to those of `fields`.
Pace read_pace(Fields& fields);
/// As people set it; none where it neither names a time nor asks for a pause.
Result<std::optional<Pace>> parse_pace(std::string_view text);

}  // namespace harpe::training
