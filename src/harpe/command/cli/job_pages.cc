#include "harpe/command/cli/job_pages.h"

#include <optional>
#include <utility>
#include <vector>

#include "harpe/base/json_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/status_fields.h"
#include "harpe/net/http_client/percent_encoded.h"

namespace harpe {

Result<Json> ask_for_pages(JobServer& server, const std::string& path) {
  Json all = Json::object({{"jobs", Json::array()}});
  for (std::string after;;) {
    const std::string response =
        HARPE_TRY(server.ask_text("GET", path + (after.empty() ? "" : "&after=" + after)));
    const Json page = json_or_discarded(response);
    if (!page.is_object() || !page.contains("jobs") || !page["jobs"].is_array()) return all;
    for (const Json& job : page["jobs"]) all["jobs"].push_back(job);
    if (page.contains("unreachable")) all["unreachable"] = page["unreachable"];
    const auto next = page.find("next");
    if (next == page.end() || !next->is_string()) return all;
    std::string encoded = percent_encoded(next->get<std::string>());
    if (encoded == after) return all;
    after = std::move(encoded);
  }
}

Error with_near_job(Error error, JobServer& server, const std::string& job) {
  const bool is_unknown = error.code == ErrorCode::kNotFound && !error.diagnostics.empty() &&
                          error.diagnostics.front().message.starts_with("there is no job " + job);
  if (!is_unknown) return error;
  const Result<Json> all = ask_for_pages(server, "/v1/jobs?activity=active,idle,ended");
  if (!all.ok()) return error;
  std::vector<std::string> names;
  for (const Json& one : (*all)["jobs"]) names.push_back(text_in(one, "id"));
  std::string& message = error.diagnostics.front().message;
  if (const std::optional<std::string> near = nearest(job, names)) {
    message += " (did you mean '" + *near + "'?)";
  } else if (!names.empty()) {
    message += " (harpe job list --all has the server's)";
  }
  return error;
}

Result<std::string> ask_of_job(JobServer& server, const std::string& job, const std::string& method,
                               const std::string& below, std::string body) {
  const std::string path = HARPE_TRY(job_path(job));
  Result<std::string> response = server.ask_text(method, path + below, std::move(body));
  if (response.ok()) return response;
  return with_near_job(std::move(response).error(), server, job);
}

}  // namespace harpe
