#pragma once
/// \file
/// The server's jobs: a list, which comes in pages, and one of them by its name. Only for `.cc`
/// files: the JSON library is large.

#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/command/cli/job_server.h"
#include "harpe/command/command/json_output.h"

namespace harpe {

/// All pages of a list as one. \param path  with a query: "/v1/jobs?activity=active"
Result<Json> ask_for_pages(JobServer& server, const std::string& path);

/// An error as it is; one by which the server knows no such job, with which one may be meant.
Error with_near_job(Error error, JobServer& server, const std::string& job);

/// `JobServer::ask_text` below a job's path, with such errors.
Result<std::string> ask_of_job(JobServer& server, const std::string& job, const std::string& method,
                               const std::string& below, std::string body = {});

}  // namespace harpe
