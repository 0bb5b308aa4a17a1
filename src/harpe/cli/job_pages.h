#pragma once
/// \file
/// Lists of the server, which come in pages. Only for `.cc` files: the JSON library is large.

#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/cli/job_server.h"
#include "harpe/command/json_output.h"

namespace harpe {

/// All pages of a list as one. \param path  with a query: "/v1/jobs?activity=active"
Result<Json> ask_for_pages(JobServer& server, const std::string& path);

}  // namespace harpe
