#pragma once
/// \file
/// What `harpe batch-size` shows of the server's responses. What a response lacks is left out. Pure
/// functions.

#include <string>
#include <string_view>

namespace harpe::command {

/// \param jobs  {"jobs": [summary, ...]}
std::string recurring_jobs_table(std::string_view jobs, bool coloured);
/// Where a job stands: a line for each batch size, the newest trials.
std::string recurring_job_view(std::string_view status, bool coloured);
/// "trial 3 trains with batch size 32: pruning, visit 1"
std::string trial_line(std::string_view trial);
/// "go on; cost so far 300 J", "stop: the target is reached, at a cost of 812 J"
std::string verdict_line(std::string_view verdict);

}  // namespace harpe::command
