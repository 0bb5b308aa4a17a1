#include "harpe/training/server/zeus_recurring_routes.h"

#include <iterator>
#include <limits>
#include <utility>

#include "harpe/base/json_fields.h"
#include "harpe/base/json_text.h"
#include "harpe/base/random_id.h"
#include "harpe/base/text.h"
#include "harpe/net/http/http_query.h"
#include "harpe/net/http/http_responses.h"
#include "harpe/training/server/recurring_routes.h"

namespace harpe::training {
namespace {

constexpr int kLargestNumber = std::numeric_limits<int>::max();

/// A client's request about one trial of a job.
struct TrialRequest {
  std::string job;
  zeus::TrialReport report;
};

void read_trial_name(Fields& fields, TrialRequest& asked) {
  asked.job = needed(fields, "job_id", fields.text("job_id"));
  asked.report.batch_size = static_cast<int>(
      needed(fields, "batch_size", fields.integer("batch_size", 1, kLargestNumber)));
  asked.report.trial = static_cast<int>(
      needed(fields, "trial_number", fields.integer("trial_number", 1, kLargestNumber)));
}

Result<TrialRequest> parse_trial(std::string_view body) {
  return read_document<TrialRequest>(
      body, "the body",
      [](Fields& fields, Diagnostics&, TrialRequest& asked) { read_trial_name(fields, asked); });
}

Result<TrialRequest> parse_trial_request(std::string_view body) {
  return read_document<TrialRequest>(
      body, "the body", [](Fields& fields, Diagnostics&, TrialRequest& asked) {
        read_trial_name(fields, asked);
        zeus::TrialReport& report = asked.report;
        report.time.value = needed(fields, "time", fields.number("time", 0, kMostEnergy));
        report.energy.value = needed(fields, "energy", fields.number("energy", 0, kMostEnergy));
        report.metric =
            needed(fields, "metric", fields.number("metric", -kMostEnergy, kMostEnergy));
        report.epoch = static_cast<int>(
            needed(fields, "current_epoch", fields.integer("current_epoch", 1, kLargestNumber)));
      });
}

/// Returns the response to an unreadable request, in the format of FastAPI.
net::HttpResponse invalid(const char* where, const Error& error) {
  net::OrderedJson details = net::OrderedJson::array();
  for (const Diagnostic& diagnostic : error.diagnostics) {
    details.push_back({{"loc", {where}}, {"msg", diagnostic.text()}, {"type", "value_error"}});
  }
  return net::json_response(422, {{"detail", std::move(details)}});
}

/// Returns the response to an error of the job.
net::HttpResponse failed(const Error& error) {
  const bool is_of_client = error.code == ErrorCode::kNotFound ||
                            error.code == ErrorCode::kConflict ||
                            error.code == ErrorCode::kInvalidInput;
  if (is_of_client) return zeus_recurring_error(400, error.text());
  // Zeus returns 500 for a job that cannot continue.
  const bool is_infeasible = error.code == ErrorCode::kInfeasible;
  return zeus_recurring_error(is_infeasible ? 500 : net::http_status(error.code), error.text());
}

net::HttpResponse unknown_job(int status, const std::string& id) {
  return zeus_recurring_error(status, "there is no job " + id);
}

Result<std::string> job_of_query(const net::HttpRequest& request) {
  return HARPE_TRY(net::HttpQuery::parse(request.query, {"job_id"})).text("job_id");
}

void register_job(RecurringJobs& jobs, const net::HttpRequest& request, const net::Reply& reply) {
  Result<zeus::RecurringJob> job = zeus::parse_recurring_job(request.body);
  if (job.ok() && !RecurringJobs::is_id(job->id)) {
    job = Error::invalid("job_id must have 1 to 128 bytes, none of them control characters");
  }
  if (!job.ok()) return reply(invalid("body", job.error()));
  jobs.put(*std::move(job), request.client,
           [&jobs, reply](const Result<RecurringJobs::Registered>& registered) {
             if (!registered.ok()) {
               return reply(zeus_recurring_error(net::http_status(registered.error().code),
                                                 registered.error().text()));
             }
             if (registered->job == nullptr) {
               return reply(zeus_recurring_error(421, "another server has the job now"));
             }
             jobs.hosting().saver().when_stored(
                 registered->job, [reply, job = registered->job,
                                   created = registered->created](const Status& stored) {
                   if (!stored.ok()) return reply(failed(stored.error()));
                   reply(net::json_response(created ? 201 : 200,
                                            own_json(zeus::recurring_job_json(job->job()))));
                 });
           });
}

void give_batch_size(RecurringJobs& jobs, const net::HttpRequest& request,
                     const net::Reply& reply) {
  const Result<std::string> id = job_of_query(request);
  if (!id.ok()) return reply(invalid("query", id.error()));
  const RecurringJobPtr job = jobs.find(*id);
  if (job == nullptr) return reply(unknown_job(400, *id));
  begin_trial(jobs, job, [reply, id = *id](const Result<zeus::BatchSizeOptimizer::Given>& given) {
    if (!given.ok()) return reply(failed(given.error()));
    reply(net::json_response(200, {{"job_id", id},
                                   {"batch_size", given->trial.batch_size},
                                   {"trial_number", given->trial.number}}));
  });
}

std::string message_of(const zeus::TrialVerdict& verdict, const zeus::TrialReport& report,
                       const zeus::RecurringJob& job) {
  switch (verdict.reason) {
    case zeus::TrialVerdict::Reason::kGoOn:
      return "Stop condition not met, keep training";
    case zeus::TrialVerdict::Reason::kReached:
      return "Train succeeded";
    case zeus::TrialVerdict::Reason::kTooCostly:
      return "The cost of the trial, " + shortest(verdict.cost) + ", is above its bound of " +
             shortest(verdict.bound);
    case zeus::TrialVerdict::Reason::kMaxEpochs:
      return "The target was not reached within max_epoch " + std::to_string(job.max_epochs);
    case zeus::TrialVerdict::Reason::kWillNotReach:
      return "By its metric so far the trial will not reach the target within " +
             std::to_string(verdict.last_epoch) + " epochs";
    case zeus::TrialVerdict::Reason::kReported:
      return "Result for this trial(" + std::to_string(report.trial) + ") is already reported.";
  }
  return "";
}

void take_report(RecurringJobs& jobs, const net::HttpRequest& request, const net::Reply& reply) {
  const Result<TrialRequest> asked = parse_trial_request(request.body);
  if (!asked.ok()) return reply(invalid("body", asked.error()));
  const RecurringJobPtr job = jobs.find(asked->job);
  if (job == nullptr) return reply(unknown_job(400, asked->job));
  take_trial_report(
      jobs, job, asked->report,
      [reply, job, report = asked->report](const Result<zeus::TrialVerdict>& verdict) {
        if (!verdict.ok()) return reply(failed(verdict.error()));
        reply(net::json_response(200, {{"stop_train", verdict->stop},
                                       {"converged", verdict->converged},
                                       {"message", message_of(*verdict, report, job->job())}}));
      });
}

void end_trial(RecurringJobs& jobs, const net::HttpRequest& request, const net::Reply& reply) {
  const Result<TrialRequest> asked = parse_trial(request.body);
  if (!asked.ok()) return reply(invalid("body", asked.error()));
  const RecurringJobPtr job = jobs.find(asked->job);
  if (job == nullptr) return reply(unknown_job(404, asked->job));
  give_trial_up(
      jobs, job, asked->report.trial, asked->report.batch_size, [reply](const Status& done) {
        if (done.ok()) return reply(net::json_response(200, nullptr));
        const bool unknown = done.error().code == ErrorCode::kNotFound;
        reply(unknown ? zeus_recurring_error(404, done.error().text()) : failed(done.error()));
      });
}

void delete_job(RecurringJobs& jobs, const net::HttpRequest& request, const net::Reply& reply) {
  const Result<std::string> id = job_of_query(request);
  if (!id.ok()) return reply(invalid("query", id.error()));
  jobs.hosting().claims().remove(
      RecurringJobs::hosted_id(*id), [reply, id = *id](const Result<bool>& removed) {
        if (!removed.ok()) return reply(failed(removed.error()));
        reply(*removed ? net::json_response(200, nullptr) : unknown_job(404, id));
      });
}

struct ZeusRoute {
  std::string_view path, method;
  void (*handle)(RecurringJobs&, const net::HttpRequest&, const net::Reply&);
};
constexpr ZeusRoute kRoutes[] = {{"/jobs", "POST", register_job},
                                 {"/jobs", "DELETE", delete_job},
                                 {"/jobs/batch_size", "GET", give_batch_size},
                                 {"/report", "POST", take_report},
                                 {"/trials", "PATCH", end_trial}};

}  // namespace

net::HttpResponse zeus_recurring_error(int status, const std::string& message) {
  return net::json_response(status, {{"message", message}});
}

bool is_zeus_recurring_path(std::string_view path) {
  return std::ranges::find(kRoutes, path, &ZeusRoute::path) != std::end(kRoutes);
}

std::optional<std::string> job_of_zeus_recurring(const net::HttpRequest& request) {
  if (!is_zeus_recurring_path(request.path)) return std::nullopt;
  if (request.method == "GET" || request.method == "DELETE") {
    Result<std::string> id = job_of_query(request);
    return id.ok() ? std::optional(*std::move(id)) : std::nullopt;
  }
  const Result<JsonValue> body = parse_json(request.body, "the body");
  const JsonValue* id = body.ok() ? body->find("job_id") : nullptr;
  if (id == nullptr || id->type != JsonValue::Type::kString) return std::nullopt;
  return id->string;
}

void name_zeus_recurring_job(net::HttpRequest& request) {
  if (request.path != "/jobs" || request.method != "POST") return;
  // The reader of the route rejects a body that is not an object of JSON.
  if (!parse_json(request.body, "the body").ok()) return;
  net::OrderedJson job = json_or_discarded(request.body);
  if (!job.is_object() || !job.value("job_id", net::OrderedJson()).is_null()) return;
  if (const auto prefix = job.find("job_id_prefix"); prefix != job.end() && prefix->is_string()) {
    job["job_id"] = prefix->get<std::string>() + "-" + random_id(4);
    request.body = json_line(job);
  }
}

bool handle_zeus_recurring(RecurringJobs& jobs, const net::HttpRequest& request,
                           const net::Reply& reply) {
  if (!is_zeus_recurring_path(request.path)) return false;
  std::string allowed;
  for (const ZeusRoute& route : kRoutes) {
    if (route.path != request.path) continue;
    if (route.method == request.method) return route.handle(jobs, request, reply), true;
    allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
  }
  net::HttpResponse refused = net::json_response(405, {{"detail", "Method Not Allowed"}});
  refused.headers.emplace_back("Allow", allowed);
  reply(std::move(refused));
  return true;
}

}  // namespace harpe::training
