#include "harpe/training/server/job_summary.h"

#include "harpe/base/json_text.h"
#include "harpe/base/text.h"
#include "harpe/training/server/plan_searcher.h"

namespace harpe::training {
namespace {

using Json = nlohmann::ordered_json;

std::string number_or_null(double value) {
  return value == 0 ? "null" : shortest(value);
}

/// The summary of a job that an older Harpe stored.
constexpr const char* kUnknown =
    "\"name\":\"\",\"phase\":null,\"ranks\":null,\"ranks_registered\":null,"
    "\"newest_iteration\":null,\"iteration_time_s\":null,\"predicted_time_s\":null,"
    "\"profiling_fraction\":null,\"rolled_back\":false,\"pause\":\"none\",\"straggling\":0,"
    "\"saved_j\":0,\"saved_error_j\":0";

}  // namespace

std::string summary_text(const HostedJob& job) {
  const JobStatus status = job.job.status();
  std::string text = "\"name\":" + json_line(Json(job.job.spec().name));
  text.append(",\"phase\":\"").append(name_of(status.phase));
  text += "\",\"ranks\":" + std::to_string(job.job.spec().shape.ranks());
  text += ",\"ranks_registered\":" + std::to_string(status.ranks_registered);
  text += ",\"newest_iteration\":" +
          (status.newest_iteration < 0 ? "null" : std::to_string(status.newest_iteration));
  text += ",\"iteration_time_s\":" + number_or_null(status.iteration_time.value);
  text += ",\"predicted_time_s\":" + number_or_null(status.predicted_time.value);
  text += ",\"profiling_fraction\":" +
          (status.profiling ? shortest(status.profiling->fraction) : "null");
  text += std::string(",\"rolled_back\":") + (status.rolled_back_until ? "true" : "false");
  text.append(",\"pause\":\"").append(name_of(status.pause.is)) += '"';
  text += ",\"straggling\":" + std::to_string(status.stragglers.size());
  text += ",\"saved_j\":" + shortest(status.saved.value);
  text += ",\"saved_error_j\":" + shortest(status.saved_error.value);
  return text;
}

std::string activity_text(Activity activity, Seconds heard, std::optional<Seconds> ended,
                          const ServiceClock& time) {
  // A silent job ended at its last message.
  if (activity == Activity::kEnded && !ended) ended = heard;
  std::string text = std::string("\"activity\":\"") + name_of(activity);
  text += "\",\"heard_at\":" + shortest(time.shown(heard).value);
  text += ",\"ended_at\":" + (ended ? shortest(time.shown(*ended).value) : "null");
  return text;
}

std::string characterization_text(const HostedJob& job) {
  const auto work = job.characterization();
  if (!work) return "null";
  return std::string("{\"running\":") + (work->running ? "true" : "false") +
         ",\"fraction\":" + shortest(work->fraction) + "}";
}

std::string search_text(const HostedJob& job) {
  if (job.search == nullptr) return "null";
  const HostedJob::Search& search = *job.search;
  return std::string("{\"state\":\"") + name_of(search.is) +
         "\",\"windows\":" + std::to_string(search.course.windows()) +
         ",\"spent_s\":" + shortest(search.course.spent().value) +
         ",\"gained\":" + shortest(search.gained) + "}";
}

std::string listed_text(const JobSummary& summary, Activity activity, const ServiceClock& time,
                        const HostedJob* job) {
  const std::optional<Seconds> ended =
      summary.ended ? std::optional(Seconds{*summary.ended}) : std::nullopt;
  return "{\"id\":" + json_line(Json(summary.job)) + "," +
         (summary.text.empty() ? kUnknown : summary.text) + "," +
         activity_text(activity, Seconds{summary.heard}, ended, time) +
         ",\"characterization\":" + (job == nullptr ? "null" : characterization_text(*job)) + "}";
}

}  // namespace harpe::training
