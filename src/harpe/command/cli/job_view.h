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
/// \param status  as `job_status_json` gives it
std::string job_view(std::string_view status, bool coloured);
/// Returns when the job ended and what it saved; empty if it has not ended, or ended only to pause.
/// \param status  as for `job_view`
std::string end_of_job(std::string_view status);
/// The "plans" of a response, one line each.
std::string plans_text(std::string_view response);
/// "12:00:01  plans to wait until ...": one event of a job; empty: nothing to show.
std::string event_line(std::string_view event, std::string_view data, std::string_view time_of_day);
/// Returns the phase that the data of a "phase" event name; empty if they name none.
std::string phase_of_event(std::string_view data);
/// \param log  {"events": [{"at", "kind", "text"}, ...]}; one line each, with local date and time
std::string log_text(std::string_view log);
/// Of a status, or of a response with the same member "pause": "asked since 2026-11-25 14:00, until
/// 2026-11-25 18:00 or so (412 g/kWh)"; empty where no pause is asked for.
std::string pause_text(std::string_view status);
/// The "warning" of a response as a line of its own; empty: it has none.
std::string warning_text(std::string_view response);

// What `harpe job` shows of a job that moves with the carbon intensity of its grid. What a
// response lacks is left out. Pure functions.

/// \param control  as GET /v1/jobs/ID/carbon gives it
std::string carbon_control_view(std::string_view control);
/// The same in one line, without its end: "paced, 412 g/kWh; 8.3 % below a static plan"; empty: it
/// does not.
std::string carbon_control_line(std::string_view control);

}  // namespace harpe::command
