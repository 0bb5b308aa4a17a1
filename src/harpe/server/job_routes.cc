#include "harpe/server/job_routes.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/http/http_answers.h"
#include "harpe/http/http_query.h"
#include "harpe/job/job_json.h"
#include "harpe/profile/profile.h"
#include "harpe/server/job_events.h"

namespace harpe {
namespace {

constexpr std::size_t kLongestId = 128;
constexpr int kMostLogged = 1000;

using JobPtr = JobRegistry::JobPtr;

/// One request for one job.
struct Asked {
  ServerContext& context;
  HttpRequest& request;
  const Reply& reply;
  JobPtr job;
  std::string rest;  ///< of the path, after the job: "/ranks"
};

HttpResponse not_found(const std::string& what) {
  return native_error(404, "not_found", what);
}

HttpResponse json_text_response(int status, std::string text) {
  return {.status = status, .content_type = "application/json", .body = std::move(text)};
}

/// True where the method is one of these; else says which there are.
bool method_is(const HttpRequest& request, const Reply& reply, const std::string& allowed) {
  if (request.method == allowed) return true;
  reply(wrong_method(allowed));
  return false;
}

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
    return Error::invalid("the job has " + std::to_string(shape.data) + " pipelines of " +
                          std::to_string(shape.stages) + " stages, counted from 0");
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
        context.registry.when_stored(job, [&context, reply, id, job, status](const Status& stored) {
          if (!stored.ok()) return reply(native_error(stored.error()));
          const int ranks = job->job.spec().shape.ranks();
          OrderedJson document{{"job", id}, {"phase", name_of(job->job.phase())}, {"ranks", ranks}};
          const std::size_t most = context.options.most_ranks;
          if (most > 0 && static_cast<std::size_t>(ranks) > most) {
            document["notice"] = "the job has " + std::to_string(ranks) +
                                 " ranks, but this server has connections for " +
                                 std::to_string(most) + ": docs/server.md, Limits";
          }
          reply(json_response(status, document));
        });
      });
}

void register_rank(const Asked& asked) {
  const Result<RankRegistration> rank = parse_rank_registration(asked.request.body);
  if (!rank.ok()) return asked.reply(native_error(rank.error()));
  JobRegistry& registry = asked.context.registry;
  const Result<int> number =
      registry.act(asked.job, [&](Job& job, Seconds now) { return job.register_rank(*rank, now); });
  if (!number.ok()) return asked.reply(native_error(number.error()));
  registry.when_stored(asked.job, [reply = asked.reply, job = asked.job, number = *number,
                                   place = rank->place](const Status& stored) {
    if (!stored.ok()) return reply(native_error(stored.error()));
    reply(json_text_response(200, "{\"rank\":" + std::to_string(number) + ",\"orders\":" +
                                      orders_text(*job, {place.data, place.stage}) + "}"));
  });
}

// --- Training -----------------------------------------------------------------------------------

void take_report(const Asked& asked) {
  const Result<IterationReport> report = parse_iteration_report(asked.request.body);
  if (!report.ok()) return asked.reply(native_error(report.error()));
  JobRegistry& registry = asked.context.registry;
  registry.count_report();
  const Status taken =
      registry.act(asked.job, [&](Job& job, Seconds now) { return job.report(*report, now); });
  if (!taken.ok()) return asked.reply(native_error(taken.error()));
  const Job& job = asked.job->job;
  std::string text = "{\"version\":" + std::to_string(job.version());
  if (job.version() > report->known) {
    text += ",\"orders\":" + orders_text(*asked.job, {report->place.data, report->place.stage});
  }
  asked.reply(json_text_response(200, text + "}"));
}

void give_orders(const Asked& asked) {
  const Result<HttpQuery> query = HttpQuery::parse(asked.request.query, {"data", "stage"});
  if (!query.ok()) return asked.reply(native_error(query.error()));
  const Result<std::optional<StagePlace>> place = place_of(*query, asked.job->job.spec().shape);
  if (!place.ok()) return asked.reply(native_error(place.error()));
  const StagePlace at = place->value_or(StagePlace());
  asked.reply(json_text_response(200, "{\"orders\":" + orders_text(*asked.job, at) + "}"));
}

void stream_events(const Asked& asked) {
  const Result<HttpQuery> query = HttpQuery::parse(asked.request.query, {"data", "stage"});
  if (!query.ok()) return asked.reply(native_error(query.error()));
  const Result<std::optional<StagePlace>> place = place_of(*query, asked.job->job.spec().shape);
  if (!place.ok()) return asked.reply(native_error(place.error()));
  asked.reply({.content_type = "text/event-stream",
               .headers = {{"Cache-Control", "no-cache"}},
               .stream = job_events(asked.context.registry, asked.job, *place)});
}

// --- People -------------------------------------------------------------------------------------

/// Answers once what was changed is stored.
void answer_when_stored(const Asked& asked, const Status& changed, OrderedJson document) {
  if (!changed.ok()) return asked.reply(native_error(changed.error()));
  document["phase"] = name_of(asked.job->job.phase());
  document["version"] = asked.job->job.version();
  asked.context.registry.when_stored(
      asked.job, [reply = asked.reply, document = std::move(document)](const Status& stored) {
        reply(stored.ok() ? json_response(200, document) : native_error(stored.error()));
      });
}

void change_straggler(const Asked& asked) {
  const auto pipeline =
      small_number(path_part(asked.rest.substr(std::string("/stragglers/").size())));
  if (!pipeline) return asked.reply(not_found("a pipeline is a number from 0"));
  JobRegistry& registry = asked.context.registry;
  if (asked.request.method == "DELETE") {
    const Status cleared = registry.act(
        asked.job, [&](Job& job, Seconds now) { return job.clear_straggler(*pipeline, now); });
    return answer_when_stored(asked, cleared, {{"pipeline", *pipeline}, {"factor", 1}});
  }
  if (asked.request.method != "PUT") return asked.reply(wrong_method("PUT, DELETE"));
  const Result<Straggler> straggler =
      parse_straggler(asked.request.body, *pipeline, registry.now());
  if (!straggler.ok()) return asked.reply(native_error(straggler.error()));
  const Status told = registry.act(
      asked.job, [&](Job& job, Seconds now) { return job.set_straggler(*straggler, now); });
  answer_when_stored(
      asked, told,
      {{"pipeline", *pipeline},
       {"factor", straggler->factor},
       {"until", straggler->until ? OrderedJson(straggler->until->value) : OrderedJson()}});
}

void change_wish(const Asked& asked) {
  if (!method_is(asked.request, asked.reply, "PUT")) return;
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

// --- What is known ------------------------------------------------------------------------------

void give_profile(const Asked& asked) {
  asked.reply(
      {.content_type = "text/csv; charset=utf-8", .body = profile_csv(asked.job->job.profile())});
}

/// 404 before there are plans.
const PlanTable* plans_or_answer(const Asked& asked) {
  const PlanTable* plans = asked.job->job.plans();
  if (plans == nullptr) {
    asked.reply(not_found(std::string("the job has no plans yet: it is ") +
                          name_of(asked.job->job.phase())));
  }
  return plans;
}

void give_frontier(const Asked& asked) {
  const PlanTable* plans = plans_or_answer(asked);
  if (plans == nullptr) return;
  const auto point = [](const TablePlan& plan) {
    return OrderedJson{{"time_s", plan.time.value}, {"energy_j", plan.energy.value}};
  };
  OrderedJson list = OrderedJson::array();
  for (const TablePlan& plan : plans->plans()) list.push_back(point(plan));
  asked.reply(json_response(200, {{"all_max", point(plans->all_max())},
                                  {"waiting_power_w", plans->waiting_power().value},
                                  {"plans", std::move(list)}}));
}

void give_plans(const Asked& asked) {
  if (const PlanTable* plans = plans_or_answer(asked)) {
    asked.reply(json_text_response(200, plans->json()));
  }
}

void give_log(const Asked& asked) {
  const Result<HttpQuery> query = HttpQuery::parse(asked.request.query, {"after"});
  if (!query.ok()) return asked.reply(native_error(query.error()));
  std::int64_t after = 0;
  if (const auto text = query->find("after")) {
    const auto number = parse_integer(*text);
    if (!number || *number < 0) {
      return asked.reply(native_error(400, "invalid_input", "after must be a whole number from 0"));
    }
    after = *number;
  }
  asked.context.registry.log_of(asked.job, after, kMostLogged,
                                [reply = asked.reply](Result<std::vector<LoggedNotice>> notices) {
                                  if (!notices.ok()) return reply(native_error(notices.error()));
                                  OrderedJson list = OrderedJson::array();
                                  for (const LoggedNotice& notice : *notices) {
                                    list.push_back({{"sequence", notice.sequence},
                                                    {"at", notice.at},
                                                    {"kind", notice.kind},
                                                    {"text", notice.text}});
                                  }
                                  reply(json_response(200, {{"events", std::move(list)}}));
                                });
}

void delete_job(const Asked& asked) {
  asked.context.registry.remove(asked.job, [reply = asked.reply](const Status& removed) {
    reply(removed.ok() ? json_response(200, {{"deleted", true}}) : native_error(removed.error()));
  });
}

void list_jobs(ServerContext& context, const Reply& reply,
               const std::optional<std::string>& only_job) {
  std::string text = "{\"jobs\":[";
  bool first = true;
  for (const auto& [id, job] : context.registry.jobs()) {
    if (only_job && *only_job != id) continue;
    if (!std::exchange(first, false)) text += ',';
    text += status_text(*job, false);
  }
  reply(json_text_response(200, text + "]}"));
}

/// What stands below a job, and the one method of each.
struct SubRoute {
  std::string_view path, method;
  void (*handle)(const Asked&);
};
constexpr SubRoute kSubRoutes[] = {
    {"/ranks", "POST", register_rank},   {"/reports", "POST", take_report},
    {"/orders", "GET", give_orders},     {"/events", "GET", stream_events},
    {"/wish", "PUT", change_wish},       {"/profile", "GET", give_profile},
    {"/frontier", "GET", give_frontier}, {"/plans", "GET", give_plans},
    {"/log", "GET", give_log},
};

void handle_job(const Asked& asked) {
  if (asked.rest.empty()) {
    if (asked.request.method == "GET") {
      return asked.reply(json_text_response(200, status_text(*asked.job, true)));
    }
    if (asked.request.method == "DELETE") return delete_job(asked);
    return asked.reply(wrong_method("GET, PUT, DELETE"));
  }
  if (asked.rest.starts_with("/stragglers/")) return change_straggler(asked);
  for (const SubRoute& route : kSubRoutes) {
    if (asked.rest != route.path) continue;
    if (!method_is(asked.request, asked.reply, std::string(route.method))) return;
    return route.handle(asked);
  }
  asked.reply(not_found("no such route: " + asked.rest.substr(0, 100)));
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

std::string status_text(const HostedJob& job, bool with_spec) {
  std::string text = "{\"id\":" + json_line(job.id) + ",\"characterization\":";
  if (const auto work = job.characterization()) {
    text += json_line({{"running", work->running}, {"fraction", work->fraction}});
  } else {
    text += "null";
  }
  text += "," + job_status_json(job.job).substr(1);
  if (with_spec) {
    text.pop_back();
    text += ",\"spec\":" + job_spec_json(job.job.spec()) + "}";
  }
  return text;
}

bool handle_jobs(ServerContext& context, HttpRequest& request, const Reply& reply,
                 const std::optional<std::string>& only_job) {
  if (request.path == kJobsPath) {
    if (method_is(request, reply, "GET")) list_jobs(context, reply, only_job);
    return true;
  }
  const std::optional<std::string> id = job_of_path(request.path);
  if (!id) return false;
  const std::size_t end = request.path.find('/', kJobsPath.size() + 1);
  std::string rest = end == std::string::npos ? std::string() : request.path.substr(end);
  if (!is_job_id(*id)) {
    reply(native_error(400, "invalid_input",
                       "the id of a job has 1 to 128 letters, digits or any of ._-+"));
    return true;
  }
  if (rest.empty() && request.method == "PUT") {
    put_job(context, request, reply, *id);
    return true;
  }
  if (rest == "/") {
    reply(not_found("there is nothing at " + request.path.substr(0, 200) +
                    "; leave out the slash at its end"));
    return true;
  }
  JobPtr job = context.registry.find(*id);
  if (job == nullptr) {
    reply(not_found("there is no job " + *id + "; register it with PUT /v1/jobs/" + *id));
    return true;
  }
  handle_job({context, request, reply, std::move(job), std::move(rest)});
  return true;
}

}  // namespace harpe
