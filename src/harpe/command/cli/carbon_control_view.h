#pragma once
/// \file
/// What `harpe job` shows of a job that moves with the carbon intensity of its grid. What a
/// response lacks is left out. Pure functions.

#include <string>
#include <string_view>

namespace harpe::command {

/// \param control  as GET /v1/jobs/ID/carbon gives it
std::string carbon_control_view(std::string_view control);
/// The same in one line, without its end: "paced, 412 g/kWh; 8.3 % below a static plan"; empty: it
/// does not.
std::string carbon_control_line(std::string_view control);

}  // namespace harpe::command
