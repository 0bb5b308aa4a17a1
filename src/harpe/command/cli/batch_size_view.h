#pragma once
/// \file
/// Output of `harpe batch-size` for the server's responses. Members that a response lacks are left
/// out. Pure functions.

#include <string>
#include <string_view>

namespace harpe::command {

/// \param jobs  {"jobs": [summary, ...]}
std::string recurring_jobs_table(std::string_view jobs, bool coloured);
/// Returns the state of a job: one line per batch size, and the newest trials.
std::string recurring_job_view(std::string_view status, bool coloured);
/// Returns, for example, "trial 3 trains with batch size 32: pruning, visit 1".
std::string trial_line(std::string_view trial);
/// Returns "continue; cost so far 300 J" or "stop: the target is reached, at a cost of 812 J".
std::string verdict_line(std::string_view verdict);

}  // namespace harpe::command
