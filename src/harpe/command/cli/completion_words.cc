#include "harpe/command/cli/completion_words.h"

#include "harpe/command/cli/device_options.h"
#include "harpe/command/cli/job_pages.h"
#include "harpe/command/cli/job_server.h"
#include "harpe/command/command/json_output.h"

namespace harpe {
namespace {

Result<std::vector<std::string>> ids(const std::string& path) {
  JobServer server = HARPE_TRY(JobServer::open(ServerArguments{}));
  const Json document = HARPE_TRY(ask_for_pages(server, path));
  std::vector<std::string> found;
  for (const Json& job : document.value("jobs", Json::array())) {
    if (job.is_object() && job.contains("id") && job["id"].is_string()) found.push_back(job["id"]);
  }
  return found;
}

Result<std::vector<std::string>> uuids() {
  const Devices devices = HARPE_TRY(open_all_devices(DeviceArguments{}));
  std::vector<std::string> found;
  for (const auto& gpu : devices.gpus) found.push_back(gpu->identity().uuid);
  return found;
}

}  // namespace

std::vector<std::string> completion_word_lists() {
  return {kJobs, kRecurringJobs, kGpus};
}

Result<std::vector<std::string>> completion_words(std::string_view list) {
  if (list == kGpus) return uuids();
  return ids(list == kJobs ? "/v1/jobs?activity=active,idle" : "/v1/recurring-jobs?limit=1000");
}

}  // namespace harpe
