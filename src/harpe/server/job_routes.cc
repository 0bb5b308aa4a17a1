#include "harpe/server/job_routes.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/http/http_query.h"
#include "harpe/job/job_json.h"
#include "harpe/server/job_events.h"
#include "harpe/server/job_summary.h"
#include "harpe/server/job_views.h"

namespace harpe {
namespace {

constexpr std::size_t kLongestId = 128;
/// Bytes of a specification that a status shows.
constexpr std::size_t kLongestShown = 64 * 1024;
constexpr std::string_view kStragglers = "/stragglers/";

using JobPtr = JobRegistry::JobPtr;

std::optional<int> small_number(std::string_view text) {
  const auto number = parse_integer(text);
  if (!number || *number < 0 || *number > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(*number);
}

/// "data" and "stage" of a query; none: not asked for. What the job does not have is a fault.
Result<std::optional<StagePlace>> place_of(const HttpQuery& query, const JobShape& shape) {
  if (!query.find("data") && !query.find("stage")) return std::optional<StagePlace>();
  StagePlace place;
  for (const auto& [name, value] : {std::pair{"data", &place.pipeline}, {"stage", &place.stage}}) {
    if (!query.find(name)) continue;
    const Result<std::uint32_t> number = query.number(name);
    if (!number.ok()) return number.error();
    *value = static_cast<int>(std::min<std::uint32_t>(*number, std::numeric_limits<int>::max()));
  }
  if (place.pipeline >= shape.data || place.stage >= shape.stages) {
    return Error::of(ErrorCode::kNotFound, "the job has " + std::to_string(shape.data) +
                                               " pipelines of " + std::to_string(shape.stages) +
                                               " stages, counted from 0");
  }
  return std::optional(place);
}

// --- Registering --------------------------------------------------------------------------------

void put_job(ServerContext& context, HttpRequest& request, const Reply& reply,
             const std::string& id) {
  context.registry.put(
      id, std::move(request.body),
      [&context, reply, id](Result<JobRegistry::Registered> registered) {
        if (!registered.ok()) return reply(native_error(registered.error()));
        const JobPtr job = registered->job;
        if (job == nullptr) {
          return reply(native_error(421, "unavailable", "another server has job " + id + " now"));
        }
        const int status = registered->created ? 201 : 200;
        context.registry.when_stored(job, [reply, id, job, status](const Status& stored) {
          if (!stored.ok()) return reply(native_error(stored.error()));
          reply(json_response(status, {{"job", id},
                                       {"phase", name_of(job->job.phase())},
                                       {"ranks", job->job.spec().shape.ranks()}}));
        });
      });
}

void register_rank(const JobRequest& asked) {
  const Result<RankRegistration> rank = parse_rank_registration(asked.request.body);
  if (!rank.ok()) return asked.reply(native_error(rank.error()));
  JobRegistry& registry = asked.context.registry;
  const Result<int> number =
      registry.act(asked.job, [&](Job& job, Seconds now) { return job.register_rank(*rank, now); });
  if (!number.ok()) return asked.reply(job_error(number.error()));
  registry.when_stored(asked.job, [reply = asked.reply, job = asked.job, number = *number,
                                   place = rank->place](const Status& stored) {
    if (!stored.ok()) return reply(native_error(stored.error()));
    reply(json_text_response(200, "{\"rank\":" + std::to_string(number) + ",\"orders\":" +
                                      orders_text(*job, {place.data, place.stage}) + "}"));
  });
}

void end_rank(const JobRequest& asked) {
  const Result<RankEnd> end = parse_rank_end(asked.request.body);
  if (!end.ok()) return asked.reply(native_error(end.error()));
  JobRegistry& registry = asked.context.registry;
  const Status ended =
      registry.act(asked.job, [&](Job& job, Seconds now) { return job.end_rank(*end, now); });
  if (!ended.ok()) return asked.reply(job_error(ended.error()));
  registry.when_stored(asked.job, [reply = asked.reply, job = asked.job](const Status& stored) {
    if (!stored.ok()) return reply(native_error(stored.error()));
    reply(json_response(200, {{"ended", job->job.ended().has_value()}}));
  });
}

// --- Training -----------------------------------------------------------------------------------

void take_report(const JobRequest& asked) {
  const Result<IterationReport> report = parse_iteration_report(asked.request.body);
  if (!report.ok()) return asked.reply(native_error(report.error()));
  JobRegistry& registry = asked.context.registry;
  registry.count_report();
  const Status taken =
      registry.act(asked.job, [&](Job& job, Seconds now) { return job.report(*report, now); });
  if (!taken.ok()) return asked.reply(job_error(taken.error()));
  const Job& job = asked.job->job;
  std::string text = "{\"version\":" + std::to_string(job.version());
  if (job.version() > report->known) {
    text += ",\"orders\":" + orders_text(*asked.job, {report->place.data, report->place.stage});
  }
  asked.reply(json_text_response(200, text + "}"));
}

void give_orders(const JobRequest& asked) {
  const Result<HttpQuery> query = HttpQuery::parse(asked.request.query, {"data", "stage"});
  if (!query.ok()) return asked.reply(native_error(query.error()));
  const Result<std::optional<StagePlace>> place = place_of(*query, asked.job->job.spec().shape);
  if (!place.ok()) return asked.reply(native_error(place.error()));
  const StagePlace at = place->value_or(StagePlace());
  asked.reply(json_text_response(200, "{\"orders\":" + orders_text(*asked.job, at) + "}"));
}

void stream_events(const JobRequest& asked) {
  const Result<HttpQuery> query = HttpQuery::parse(asked.request.query, {"data", "stage"});
  if (!query.ok()) return asked.reply(native_error(query.error()));
  const Result<std::optional<StagePlace>> place = place_of(*query, asked.job->job.spec().shape);
  if (!place.ok()) return asked.reply(native_error(place.error()));
  if (*place) asked.context.registry.wake(asked.job);
  asked.reply({.content_type = "text/event-stream",
               .headers = {{"Cache-Control", "no-cache"}},
               .stream = job_events(asked.context.registry, asked.job, *place)});
}

// --- People -------------------------------------------------------------------------------------

/// Answers once what was changed is stored.
void answer_when_stored(const JobRequest& asked, const Status& changed, OrderedJson document) {
  if (!changed.ok()) return asked.reply(job_error(changed.error()));
  document["phase"] = name_of(asked.job->job.phase());
  document["version"] = asked.job->job.version();
  asked.context.registry.when_stored(
      asked.job, [reply = asked.reply, document = std::move(document)](const Status& stored) {
        reply(stored.ok() ? json_response(200, document) : native_error(stored.error()));
      });
}

void change_straggler(const JobRequest& asked) {
  const auto pipeline = small_number(path_part(asked.rest.substr(kStragglers.size())));
  if (!pipeline) return asked.reply(not_found("a pipeline is a number from 0"));
  JobRegistry& registry = asked.context.registry;
  if (asked.request.method == "DELETE") {
    const Status cleared = registry.act(
        asked.job, [&](Job& job, Seconds now) { return job.clear_straggler(*pipeline, now); });
    return answer_when_stored(asked, cleared, {{"pipeline", *pipeline}, {"factor", 1}});
  }
  const Result<Straggler> straggler =
      parse_straggler(asked.request.body, *pipeline, registry.now(), registry.time().wall());
  if (!straggler.ok()) return asked.reply(native_error(straggler.error()));
  const Status told = registry.act(
      asked.job, [&](Job& job, Seconds now) { return job.set_straggler(*straggler, now); });
  answer_when_stored(
      asked, told,
      {{"pipeline", *pipeline},
       {"factor", straggler->factor},
       {"until", straggler->until ? OrderedJson(registry.time().shown(*straggler->until).value)
                                  : OrderedJson()}});
}

void change_wish(const JobRequest& asked) {
  const Result<Wish> wish = parse_wish(asked.request.body);
  if (!wish.ok()) return asked.reply(native_error(wish.error()));
  const Status changed = asked.context.registry.act(
      asked.job, [&](Job& job, Seconds now) { return job.set_wish(*wish, now); });
  OrderedJson document{{"wish", OrderedJson::parse(wish_json(*wish))}};
  const bool may_be_too_much =
      wish->kind == Wish::Kind::kDeadline || wish->kind == Wish::Kind::kPowerCap;
  if (may_be_too_much && asked.job->job.plans() == nullptr) {
    document["notice"] =
        "the job has no plans yet, so nobody knows whether one does this: if none does, the "
        "nearest is used, and the job's log says what is possible";
  }
  answer_when_stored(asked, changed, std::move(document));
}

void delete_job(ServerContext& context, const Reply& reply, const std::string& id) {
  context.registry.remove(id, [reply, id](const Result<bool>& removed) {
    if (!removed.ok()) return reply(native_error(removed.error()));
    reply(*removed ? json_response(200, {{"deleted", true}}) : no_such_job(id));
  });
}

/// What stands below a job, and the one method of each.
struct SubRoute {
  std::string_view path, method;
  void (*handle)(const JobRequest&);
};
constexpr SubRoute kSubRoutes[] = {
    {"/ranks", "POST", register_rank},
    {"/reports", "POST", take_report},
    {"/end", "POST", end_rank},
    {"/orders", "GET", give_orders},
    {"/events", "GET", stream_events},
    {"/wish", "PUT", change_wish},
    {"/specification", "GET", give_specification},
    {"/profile", "GET", give_profile},
    {"/frontier", "GET", give_frontier},
    {"/plans", "GET", give_plans},
    {"/log", "GET", give_log},
};

/// Of a path, after the job: "/ranks".
std::string_view rest_of(std::string_view path) {
  const std::size_t end = path.find('/', kJobsPath.size() + 1);
  return end == std::string_view::npos ? std::string_view() : path.substr(end);
}

void handle_job(const JobRequest& asked) {
  if (asked.rest.empty()) {
    return asked.reply(json_text_response(200, status_text(asked.context.registry, *asked.job)));
  }
  if (asked.rest.starts_with(kStragglers)) return change_straggler(asked);
  std::ranges::find(kSubRoutes, asked.rest, &SubRoute::path)->handle(asked);
}

}  // namespace

std::string path_part(std::string_view part) {
  std::string text;
  // In a path a plus is a plus.
  for (const char c : part) c == '+' ? text += "%2B" : text += c;
  Result<std::string> decoded = percent_decoded(text);
  return decoded.ok() ? *std::move(decoded) : std::string(part);
}

std::optional<std::string> job_of_path(std::string_view path) {
  if (!path.starts_with(kJobsPath) || path.size() < kJobsPath.size() + 2 ||
      path[kJobsPath.size()] != '/') {
    return std::nullopt;
  }
  path.remove_prefix(kJobsPath.size() + 1);
  return path_part(path.substr(0, path.find('/')));
}

bool is_job_id(std::string_view id) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-' || c == '+';
  };
  return !id.empty() && id.size() <= kLongestId && std::ranges::all_of(id, allowed) && id != "." &&
         id != "..";
}

std::string methods_of_jobs(std::string_view path) {
  if (path == kJobsPath) return "GET";
  if (!job_of_path(path)) return {};
  const std::string_view rest = rest_of(path);
  if (rest.empty()) return "GET, PUT, DELETE";
  if (rest.starts_with(kStragglers)) return "PUT, DELETE";
  const auto route = std::ranges::find(kSubRoutes, rest, &SubRoute::path);
  return route == std::end(kSubRoutes) ? std::string() : std::string(route->method);
}

bool needs_job_in_memory(const HttpRequest& request) {
  return !rest_of(request.path).empty() || request.method == "GET";
}

std::string status_text(const JobRegistry& registry, const HostedJob& job) {
  std::string text = "{\"id\":" + json_line(OrderedJson(job.id)) +
                     ",\"characterization\":" + characterization_text(job);
  const ServiceClock& time = registry.time();
  text += "," + activity_text(registry.activity(job), job.job.heard(), job.job.ended(), time);
  text += "," + job_status_json(job.job, [&time](Seconds at) { return time.shown(at); }).substr(1);
  text.pop_back();
  const bool is_shown = job.specification.size() <= kLongestShown;
  return text + ",\"spec\":" + (is_shown ? job.specification : "null") + "}";
}

bool handle_jobs(ServerContext& context, HttpRequest& request, const Reply& reply,
                 const std::optional<std::string>& only_job) {
  if (request.path == kJobsPath) {
    list_jobs(context, request, reply, only_job);
    return true;
  }
  const std::optional<std::string> id = job_of_path(request.path);
  if (!id) return false;
  std::string rest(rest_of(request.path));
  if (!is_job_id(*id)) {
    reply(native_error(400, "invalid_input",
                       "the id of a job has 1 to 128 letters, digits or any of ._-+"));
    return true;
  }
  if (rest == "/") {
    reply(not_found("there is nothing at " + request.path.substr(0, 200) +
                    "; leave out the slash at its end"));
    return true;
  }
  if (methods_of_jobs(request.path).empty()) {
    reply(not_found("no such route: " + rest.substr(0, 100)));
    return true;
  }
  if (!needs_job_in_memory(request)) {
    request.method == "PUT" ? put_job(context, request, reply, *id)
                            : delete_job(context, reply, *id);
    return true;
  }
  JobPtr job = context.registry.find(*id);
  if (job == nullptr) {
    reply(no_such_job(*id));
    return true;
  }
  handle_job({context, request, reply, std::move(job), std::move(rest)});
  return true;
}

}  // namespace harpe
