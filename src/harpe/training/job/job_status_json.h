#pragma once
/// \file
/// Where a job stands, as JSON, and what people declare of it. Only for `.cc` files.

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/training/job/job.h"

namespace harpe {
class Fields;
}  // namespace harpe

namespace harpe::training {

/// Phase, progress, stragglers, predictions, savings. \param shown  a time of the job's clock in
/// seconds since 1970
nlohmann::ordered_json job_status_json(const Job& job,
                                       const std::function<Seconds(Seconds)>& shown);

/// What has become of a pause; null where none is asked for. Its "resumes" is the pace's.
nlohmann::ordered_json pause_json(const Job& job, const PauseState& pause,
                                  const std::function<Seconds(Seconds)>& shown);

/// The member "plans" of it: those that run, and on how many pipelines.
nlohmann::ordered_json running_plans_json(const Job& job);

/// \param now  by the job's clock, to which "for_s" is added; \param wall  the same moment in
/// seconds since 1970, in which "until" is given
Result<plan::Straggler> parse_straggler(std::string_view text, int pipeline, Seconds now,
                                        Seconds wall);

// A job's pace as JSON: how it is set from outside, stored, and shown by its status.

/// "iteration_time_s", "pause", "resumes", "why", on one line; null where there is none.
std::string pace_json(const Pace& pace);
/// The same members, each of which may be left out. Errors go to those of `fields`.
Pace read_pace(Fields& fields);
/// As people set it; none where it neither names a time nor asks for a pause.
Result<std::optional<Pace>> parse_pace(std::string_view text);

}  // namespace harpe::training
