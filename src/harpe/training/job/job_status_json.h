#pragma once
/// \file
/// The status of a job as JSON, and parsers of stragglers and paces. Only for `.cc` files.

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

/// Returns the job's phase, progress, stragglers, predictions and savings.
/// \param shown  converts a time of the job's clock to seconds since 1970
nlohmann::ordered_json job_status_json(const Job& job,
                                       const std::function<Seconds(Seconds)>& shown);

/// Returns the state of a pause; null if none is requested. Its "resumes" is the pace's.
nlohmann::ordered_json pause_json(const Job& job, const PauseState& pause,
                                  const std::function<Seconds(Seconds)>& shown);

/// Returns the status member "plans": the running plans, and the number of pipelines of each.
nlohmann::ordered_json running_plans_json(const Job& job);

/// Parses the declaration of a straggler.
/// \param now   by the job's clock, to which "for_s" is added
/// \param wall  the same moment in seconds since 1970, the unit of "until"
Result<plan::Straggler> parse_straggler(std::string_view text, int pipeline, Seconds now,
                                        Seconds wall);

// A job's pace as JSON, for requests, snapshots and the status.

/// Returns "iteration_time_s", "pause", "resumes" and "why" on one line; null for an unset time.
std::string pace_json(const Pace& pace);
/// Reads these members, each of which is optional. Errors are added to those of `fields`.
Pace read_pace(Fields& fields);
/// Parses the pace of a request; nullopt if it has neither an iteration time nor a pause.
Result<std::optional<Pace>> parse_pace(std::string_view text);

}  // namespace harpe::training
