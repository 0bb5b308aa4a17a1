#pragma once
/// \file
/// Texts of `harpe job` for the server's responses. Members that a response lacks are left out.
/// Pure functions.

#include <string>
#include <string_view>

namespace harpe::command {

/// \param jobs  {"jobs": [status, ...]}
/// \param none  the text for an empty list
/// \param columns  of the terminal: columns that do not fit are left out; 0: as wide as it is
std::string jobs_table(std::string_view jobs, bool coloured, std::string_view none,
                       int columns = 0);
/// \param status  in the form of `job_status_json`
std::string job_view(std::string_view status, bool coloured);
/// Returns the end time of a job and its saving; empty if it has not ended, or ended only to pause.
/// \param status  as for `job_view`
std::string end_of_job(std::string_view status);
/// Returns the "plans" of a response, one line each.
std::string plans_text(std::string_view response);
/// Returns a line for one event of a job, "12:00:01  plans for waiting until ..."; empty if not
/// shown.
std::string event_line(std::string_view event, std::string_view data, std::string_view time_of_day);
/// Returns the phase in the data of a "phase" event; empty if there is none.
std::string phase_of_event(std::string_view data);
/// Returns one line per entry, with local date and time.
/// \param log  {"events": [{"at", "kind", "text"}, ...]}
std::string log_text(std::string_view log);
/// Returns the pause of a status, or of a response with the same member "pause": "asked since
/// 2026-11-25 14:00, until 2026-11-25 18:00 or so (412 g/kWh)"; empty if no pause is requested.
std::string pause_text(std::string_view status);
/// Returns the "warning" of a response as a line; empty if it has none.
std::string warning_text(std::string_view response);

// Output of `harpe job` for a job that follows the carbon intensity of its grid. Members that a
// response lacks are left out. Pure functions.

/// \param control  response of GET /v1/jobs/ID/carbon
std::string carbon_control_view(std::string_view control);
/// Returns the control in one line, without a line end: "paced, 412 g/kWh; 8.3 % below a static
/// plan"; empty if the job does not follow the intensity.
std::string carbon_control_line(std::string_view control);

}  // namespace harpe::command
