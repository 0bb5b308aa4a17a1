#include "harpe/training/server/recurring_routes.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "harpe/base/json_fields.h"
#include "harpe/base/json_text.h"
#include "harpe/base/text.h"
#include "harpe/net/http/http_query.h"
#include "harpe/net/http/http_responses.h"
#include "harpe/training/server/hosted_request.h"
#include "harpe/training/server/job_routes.h"
#include "harpe/training/server/job_summary.h"

namespace harpe::training {
namespace {

constexpr std::string_view kTrials = "/trials";
constexpr std::string_view kReports = "/reports";
constexpr std::string_view kEnd = "/end";
constexpr int kLargest = std::numeric_limits<int>::max();

/// A request for a recurring job.
struct RecurringRequest {
  RecurringJobs& jobs;
  const net::HttpRequest& request;
  const net::Reply& reply;
  RecurringJobPtr job;
};

net::HttpResponse no_recurring_job(const std::string& id) {
  return net::native_error(404, "not_found",
                           "there is no recurring job " + id + "; register it with PUT " +
                               std::string(kRecurringPath) + "/" + id);
}

/// Returns the part of a path after the job: "/trials/3".
std::string_view trial_path(std::string_view path) {
  const std::size_t end = path.find('/', kRecurringPath.size() + 1);
  return end == std::string_view::npos ? std::string_view() : path.substr(end);
}

/// Returns the number in "/trials/3" and "/trials/3/reports".
std::optional<int> trial_of(std::string_view rest) {
  rest.remove_prefix(std::min(rest.size(), kTrials.size() + 1));
  const auto number = parse_integer(rest.substr(0, rest.find('/')));
  if (!number || *number < 1 || *number > kLargest) return std::nullopt;
  return static_cast<int>(*number);
}

const char* name_of(zeus::TrialVerdict::Reason reason) {
  constexpr std::array kNames = {"go_on",      "reached",        "too_costly",
                                 "max_epochs", "will_not_reach", "reported"};
  return kNames.at(static_cast<std::size_t>(reason));
}

net::OrderedJson json_of(const zeus::RecurringJob& job, const zeus::Trial& trial) {
  net::OrderedJson document = own_json(zeus::trial_json(trial));
  document["cost"] = job.cost(trial.energy, trial.time);
  return document;
}

/// Returns the results of each batch size.
net::OrderedJson sizes_json(const zeus::BatchSizeOptimizer& optimizer) {
  struct Known {
    int results = 0, converged = 0;
    double cost = 0;  ///< sum over converged trials
  };
  std::map<int, Known> known;
  for (const zeus::Trial& trial : optimizer.trials()) {
    if (!trial.has_result()) continue;
    Known& size = known[trial.batch_size];
    ++size.results;
    if (!trial.converged) continue;
    ++size.converged;
    size.cost += optimizer.job().cost(trial.energy, trial.time);
  }
  net::OrderedJson sizes = net::OrderedJson::array();
  for (const int size : optimizer.job().batch_sizes) {
    const Known& one = known[size];
    sizes.push_back(
        {{"batch_size", size},
         {"results", one.results},
         {"converged", one.converged},
         {"mean_cost",
          one.converged == 0 ? net::OrderedJson() : net::OrderedJson(one.cost / one.converged)}});
  }
  return sizes;
}

net::OrderedJson activity_json(const Hosting& hosting, const Hosted& hosted) {
  return own_json("{" +
                  activity_text(hosting.activities().of(hosted), hosted.heard(), hosted.ended(),
                                hosting.time()) +
                  "}");
}

void give_status(const RecurringRequest& asked) {
  const zeus::BatchSizeOptimizer& optimizer = asked.job->optimizer();
  const zeus::Trial* cheapest = optimizer.cheapest();
  net::OrderedJson trials = net::OrderedJson::array();
  for (const zeus::Trial& trial : optimizer.trials())
    trials.push_back(json_of(asked.job->job(), trial));
  net::OrderedJson document{{"id", asked.job->job().id}};
  document.update(activity_json(asked.jobs.hosting(), *asked.job));
  document["cheapest"] =
      cheapest == nullptr ? net::OrderedJson() : json_of(asked.job->job(), *cheapest);
  document["batch_sizes"] = sizes_json(optimizer);
  document["trials"] = std::move(trials);
  document["reports_refused"] = optimizer.reports_refused();
  document["job"] = own_json(zeus::recurring_job_json(asked.job->job()));
  asked.reply(net::json_response(200, document));
}

void put_recurring_job(RecurringJobs& jobs, const net::HttpRequest& request,
                       const net::Reply& reply, const std::string& id) {
  // The id is in the path. The strict parser runs first: it detects duplicate names.
  const Result<JsonValue> parsed = parse_json(request.body, "the job");
  if (!parsed.ok()) return reply(net::native_error(parsed.error()));
  net::OrderedJson document = json_or_discarded(request.body);
  if (document.is_object()) {
    if (document.value("job_id", net::OrderedJson()).is_null()) document["job_id"] = id;
    if (!document.contains("job_id_prefix")) document["job_id_prefix"] = id;
  }
  Result<zeus::RecurringJob> job = zeus::parse_recurring_job(json_line(document));
  if (!job.ok()) return reply(net::native_error(job.error()));
  if (job->id != id) {
    return reply(net::native_error(400, "invalid_input", "job_id differs from the id in the path"));
  }
  jobs.put(*std::move(job), request.client,
           [&jobs, reply, id,
            forwarded = request.forwarded](const Result<RecurringJobs::Registered>& registered) {
             if (!registered.ok()) return reply(net::native_error(registered.error()));
             if (registered->job == nullptr) {
               return reply(
                   net::native_error(421, "unavailable", "another server has job " + id + " now"));
             }
             jobs.hosting().saver().when_stored(
                 registered->job,
                 [respond = while_commanded(jobs.hosting(), registered->job, forwarded, reply),
                  job = registered->job, created = registered->created](const Status& stored) {
                   if (!stored.ok()) return respond(net::native_error(stored.error()));
                   respond(net::json_response(created ? 201 : 200,
                                              own_json(zeus::recurring_job_json(job->job()))));
                 });
           });
}

void list_recurring_jobs(RecurringJobs& jobs, const net::HttpRequest& request,
                         const net::Reply& reply) {
  const Result<ListRequest> wanted = parse_list_request(request.query);
  if (!wanted.ok()) return reply(net::native_error(wanted.error()));
  const Hosting& hosting = jobs.hosting();
  net::OrderedJson list = net::OrderedJson::array();
  const auto is_recurring = [](const std::string& id) { return id.starts_with(kRecurringIds); };
  const auto next = hosting.activities().list(
      RecurringJobs::hosted_id(wanted->after), wanted->limit, wanted->activities, is_recurring,
      [&](const JobActivities::Listed& one) {
        net::OrderedJson job{{"id", one.summary.job.substr(kRecurringIds.size())}};
        job.update(own_json("{" + one.summary.text + "}"));
        job.update(own_json(
            "{" +
            activity_text(one.activity, Seconds{one.summary.heard}, std::nullopt, hosting.time()) +
            "}"));
        list.push_back(std::move(job));
      });
  net::OrderedJson document{{"jobs", std::move(list)}};
  if (next) document["next"] = next->substr(kRecurringIds.size());
  reply(net::json_response(200, document));
}

void delete_recurring_job(RecurringJobs& jobs, const net::Reply& reply, const std::string& id) {
  jobs.hosting().claims().remove(
      RecurringJobs::hosted_id(id), [reply, id](const Result<bool>& removed) {
        if (!removed.ok()) return reply(net::native_error(removed.error()));
        reply(*removed ? net::json_response(200, {{"deleted", true}}) : no_recurring_job(id));
      });
}

void begin(const RecurringRequest& asked) {
  begin_trial(
      asked.jobs, asked.job,
      [reply = asked.reply, job = asked.job](const Result<zeus::BatchSizeOptimizer::Given>& given) {
        if (!given.ok()) return reply(net::native_error(given.error()));
        net::OrderedJson document = json_of(job->job(), given->trial);
        document["why"] = given->why;
        reply(net::json_response(201, document));
      });
}

Result<zeus::TrialReport> parse_report(std::string_view body) {
  return read_document<zeus::TrialReport>(
      body, "the report", [](Fields& fields, Diagnostics&, zeus::TrialReport& report) {
        report.epoch =
            static_cast<int>(needed(fields, "epoch", fields.integer("epoch", 1, kLargest)));
        report.time.value = needed(fields, "time_s", fields.number("time_s", 0, kMostEnergy));
        report.energy.value = needed(fields, "energy_j", fields.number("energy_j", 0, kMostEnergy));
        report.metric = number_or_null(fields, "metric", -kMostEnergy, kMostEnergy);
      });
}

void take_report(const RecurringRequest& asked, const zeus::Trial& trial) {
  Result<zeus::TrialReport> report = parse_report(asked.request.body);
  if (!report.ok()) return asked.reply(net::native_error(report.error()));
  report->trial = trial.number;
  report->batch_size = trial.batch_size;
  take_trial_report(asked.jobs, asked.job, *report,
                    [reply = asked.reply](const Result<zeus::TrialVerdict>& verdict) {
                      if (!verdict.ok()) return reply(net::native_error(verdict.error()));
                      reply(net::json_response(200, {{"stop", verdict->stop},
                                                     {"converged", verdict->converged},
                                                     {"reason", name_of(verdict->reason)},
                                                     {"cost", verdict->cost},
                                                     {"bound", null_if_nan(verdict->bound)}}));
                    });
}

void handle_trial(const RecurringRequest& asked, std::string_view rest) {
  const std::optional<int> number = trial_of(rest);
  const zeus::Trial* trial = number ? asked.job->optimizer().find(*number) : nullptr;
  if (trial == nullptr) {
    return asked.reply(net::native_error(404, "not_found", "the job has no such trial"));
  }
  if (rest.ends_with(kReports)) return take_report(asked, *trial);
  if (asked.request.method == "GET") {
    return asked.reply(net::json_response(200, json_of(asked.job->job(), *trial)));
  }
  const auto respond = [reply = asked.reply](const Status& done) {
    reply(done.ok() ? net::json_response(200, {{"ended", true}}) : net::native_error(done.error()));
  };
  if (rest.ends_with(kEnd)) {
    return give_trial_up(asked.jobs, asked.job, trial->number, trial->batch_size, respond);
  }
  const Status retracted = asked.jobs.act(
      asked.job, [&](HostedRecurringJob& one, Seconds now) { return one.retract(*number, now); });
  if (!retracted.ok()) return respond(retracted);
  asked.jobs.hosting().saver().when_stored(asked.job, respond);
}

void handle_job(const RecurringRequest& asked) {
  const std::string_view rest = trial_path(asked.request.path);
  if (rest.empty()) return give_status(asked);
  if (rest == "/log") {
    return respond_with_log(asked.jobs.hosting(), asked.job, asked.request.query, asked.reply);
  }
  if (rest == kTrials) return begin(asked);
  handle_trial(asked, rest);
}

}  // namespace

void begin_trial(RecurringJobs& jobs, const RecurringJobPtr& job,
                 std::function<void(const Result<zeus::BatchSizeOptimizer::Given>&)> done) {
  auto given = jobs.act(job, [](HostedRecurringJob& one, Seconds now) { return one.next(now); });
  if (!given.ok()) return done(given);
  jobs.hosting().saver().when_stored(
      job, [&jobs, job, given = *std::move(given), done = std::move(done)](const Status& stored) {
        if (stored.ok()) return done(given);
        // The client does not learn of the trial, and requests one again. Without this, the job
        // would wait for the trial until its lease expires, and a second trial would begin.
        (void)jobs.act(
            job, [&](HostedRecurringJob& one, Seconds now) { return one.not_given(given, now); });
        done(stored.error());
      });
}

void take_trial_report(RecurringJobs& jobs, const RecurringJobPtr& job,
                       const zeus::TrialReport& report,
                       std::function<void(const Result<zeus::TrialVerdict>&)> done) {
  auto verdict =
      jobs.act(job, [&](HostedRecurringJob& one, Seconds now) { return one.report(report, now); });
  if (!verdict.ok()) return done(verdict);
  jobs.hosting().saver().when_stored(
      job, [verdict = *std::move(verdict), done = std::move(done)](const Status& stored) {
        stored.ok() ? done(verdict) : done(stored.error());
      });
}

void give_trial_up(RecurringJobs& jobs, const RecurringJobPtr& job, int trial, int batch_size,
                   std::function<void(const Status&)> done) {
  const Status given_up = jobs.act(job, [&](HostedRecurringJob& one, Seconds now) {
    return one.give_up(trial, batch_size, now);
  });
  if (!given_up.ok()) return done(given_up);
  jobs.hosting().saver().when_stored(job, std::move(done));
}

std::optional<std::string> recurring_job_of_path(std::string_view path) {
  if (!path.starts_with(kRecurringPath) || path.size() < kRecurringPath.size() + 2 ||
      path[kRecurringPath.size()] != '/') {
    return std::nullopt;
  }
  path.remove_prefix(kRecurringPath.size() + 1);
  return path_part(path.substr(0, path.find('/')));
}

std::string methods_of_recurring_jobs(std::string_view path) {
  if (path == kRecurringPath) return "GET";
  if (!recurring_job_of_path(path)) return {};
  const std::string_view rest = trial_path(path);
  if (rest.empty()) return "GET, PUT, DELETE";
  if (rest == "/log") return "GET";
  if (rest == kTrials) return "POST";
  if (!rest.starts_with(kTrials) || rest[kTrials.size()] != '/') return {};
  const std::string_view trial = rest.substr(kTrials.size() + 1);
  const std::size_t end = trial.find('/');
  if (end == std::string_view::npos) return "GET, DELETE";
  return trial.substr(end) == kReports || trial.substr(end) == kEnd ? "POST" : "";
}

bool needs_recurring_job_in_memory(const net::HttpRequest& request) {
  return !trial_path(request.path).empty() || request.method == "GET";
}

bool handle_recurring_jobs(RecurringJobs& jobs, net::HttpRequest& request,
                           const net::Reply& reply) {
  if (request.path == kRecurringPath) return list_recurring_jobs(jobs, request, reply), true;
  const std::optional<std::string> id = recurring_job_of_path(request.path);
  if (!id) return false;
  if (!RecurringJobs::is_id(*id)) {
    reply(net::native_error(400, "invalid_input",
                            "the id of a recurring job has 1 to 128 bytes, none of them control "
                            "characters"));
  } else if (methods_of_recurring_jobs(request.path).empty()) {
    reply(
        net::native_error(404, "not_found", "there is nothing at " + request.path.substr(0, 200)));
  } else if (request.method == "PUT") {
    put_recurring_job(jobs, request, reply, *id);
  } else if (request.method == "DELETE" && trial_path(request.path).empty()) {
    delete_recurring_job(jobs, reply, *id);
  } else if (const RecurringJobPtr job = jobs.find(*id)) {
    handle_job(
        {jobs, request, while_commanded(jobs.hosting(), job, request.forwarded, reply), job});
  } else {
    reply(no_recurring_job(*id));
  }
  return true;
}

}  // namespace harpe::training
