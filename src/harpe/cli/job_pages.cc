#include "harpe/cli/job_pages.h"

#include "harpe/http_client/percent_encoded.h"

namespace harpe {

Result<Json> ask_for_pages(JobServer& server, const std::string& path) {
  Json all = Json::object({{"jobs", Json::array()}});
  for (std::string after;;) {
    const std::string response =
        HARPE_TRY(server.ask_text("GET", path + (after.empty() ? "" : "&after=" + after)));
    const Json page = Json::parse(response, nullptr, false);
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

}  // namespace harpe
