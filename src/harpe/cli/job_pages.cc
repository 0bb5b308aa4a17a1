#include "harpe/cli/job_pages.h"

namespace harpe {

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (kPlain.find(c) != std::string_view::npos) {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return encoded;
}

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
