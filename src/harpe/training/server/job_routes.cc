#include "harpe/training/server/job_routes.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/json_text.h"
#include "harpe/base/result.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon/ledger_json.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/net/http/http_query.h"
#include "harpe/plan/frontier/certificate.h"
#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/objective/objective.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/pipeline.h"
#include "harpe/training/job/job.h"
#include "harpe/training/job/job_status_json.h"
#include "harpe/training/job/make_plans.h"
#include "harpe/training/server/hosted_request.h"
#include "harpe/training/server/job_events.h"
#include "harpe/training/server/job_request.h"
#include "harpe/training/server/job_summary.h"
#include "harpe/training/wire/carbon_terms.h"
#include "harpe/training/wire/job_spec.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

/// Maximum size in bytes of a specification that a status includes.
constexpr std::size_t kLongestShown = 64 * 1024;
constexpr std::string_view kStragglers = "/stragglers/";

using JobPtr = JobRegistry::JobPtr;

std::optional<int> small_number(std::string_view text) {
  const auto number = parse_integer(text);
  if (!number || *number < 0 || *number > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(*number);
}

/// Returns "data" and "stage" of a query, nullopt without either. Fails if there is no such stage.
Result<std::optional<StageCoordinates>> coordinates_of(const net::HttpQuery& query,
                                                       const JobShape& shape) {
  if (!query.find("data") && !query.find("stage")) return std::optional<StageCoordinates>();
  StageCoordinates coordinates;
  for (const auto& [name, value] :
       {std::pair{"data", &coordinates.pipeline}, {"stage", &coordinates.stage}}) {
    if (!query.find(name)) continue;
    const std::uint32_t number = HARPE_TRY(query.number(name));
    *value = static_cast<int>(std::min<std::uint32_t>(number, std::numeric_limits<int>::max()));
  }
  if (coordinates.pipeline >= shape.data || coordinates.stage >= shape.stages) {
    return Error::of(ErrorCode::kNotFound, "the job has " + std::to_string(shape.data) +
                                               " pipelines of " + std::to_string(shape.stages) +
                                               " stages, counted from 0");
  }
  return std::optional(coordinates);
}

// --- Views ---------------------------------------------------------------------------------------

constexpr std::size_t kLong = 1024 * 1024, kPiece = 128 * 1024;

class Pieces final : public net::EventStream {
 public:
  explicit Pieces(std::shared_ptr<const std::string> text) : text_(std::move(text)) {}
  void start(std::function<void()> wake) override { wake(); }
  std::string take() override {
    std::string piece = text_->substr(at_, kPiece);
    at_ += piece.size();
    return piece;
  }
  bool ended() const override { return at_ == text_->size(); }

 private:
  const std::shared_ptr<const std::string> text_;
  std::size_t at_ = 0;
};

net::HttpResponse long_response(std::string content_type, std::shared_ptr<const std::string> text) {
  if (text->size() <= kLong) return {.content_type = std::move(content_type), .body = *text};
  return {.content_type = std::move(content_type),
          .stream = std::make_shared<Pieces>(std::move(text))};
}

constexpr const char* kJson = "application/json";

/// Writes a response on the reader pool, where it delays no other job.
void respond_aside(const JobRequest& asked, std::string content_type,
                   std::function<Result<std::string>()> write) {
  asked.context.registry.hosting().readers().run(
      asked.job->id,
      [reply = asked.reply, content_type = std::move(content_type),
       write = std::move(write)]() -> std::function<void()> {
        Result<std::string> written = write();
        if (!written.ok())
          return [reply, error = written.error()] { reply(net::native_error(error)); };
        const auto text = std::make_shared<const std::string>(*std::move(written));
        return [reply, content_type, text] { reply(long_response(content_type, text)); };
      });
}

/// Returns the plans of the job; if it has none yet, responds 404 and returns null.
std::shared_ptr<const plan::PlanTable> plans_or_response(const JobRequest& asked) {
  std::shared_ptr<const plan::PlanTable> plans = asked.job->job.shared_plans();
  if (plans == nullptr) {
    asked.reply(not_found(std::string("the job has no plans yet: it is ") +
                          name_of(asked.job->job.phase())));
  }
  return plans;
}

std::string frontier_text(const plan::PlanTable& plans) {
  const auto point = [](const plan::TablePlan& plan) {
    return "{\"time_s\":" + shortest(plan.time.value) +
           ",\"energy_j\":" + shortest(plan.energy.value) + "}";
  };
  std::string text = "{\"all_max\":" + point(plans.all_max()) +
                     ",\"waiting_power_w\":" + shortest(plans.waiting_power().value) +
                     ",\"plans\":[";
  for (const plan::TablePlan& plan : plans.plans()) {
    if (text.back() != '[') text += ',';
    text += point(plan);
  }
  return text + "]}\n";
}

/// Returns the tokens of an iteration by the terms in force, else by those of the specification; 0
/// if neither has them.
double tokens_per_iteration(const HostedJob& job) {
  std::optional<CarbonTerms> terms = job.carbon.terms();
  if (!terms && !job.job.spec().carbon.empty()) {
    if (auto read = parse_carbon_terms(job.job.spec().carbon); read.ok()) terms = *std::move(read);
  }
  return terms ? terms->tokens_per_iteration.value_or(0) : 0;
}

void give_profile(const JobRequest& asked) {
  respond_aside(asked, "text/csv; charset=utf-8",
                [profile = asked.job->job.profile()] { return profile_csv(profile); });
}

void give_specification(const JobRequest& asked) {
  asked.reply(long_response(
      kJson, std::make_shared<const std::string>(asked.job->job.specification_text() + "\n")));
}

void give_frontier(const JobRequest& asked) {
  const std::shared_ptr<const plan::PlanTable> plans = plans_or_response(asked);
  if (plans == nullptr) return;
  respond_aside(asked, kJson, [plans] { return frontier_text(*plans); });
}

void give_plans(const JobRequest& asked) {
  const std::shared_ptr<const plan::PlanTable> plans = plans_or_response(asked);
  if (plans == nullptr) return;
  asked.context.registry.hosting().readers().run(
      asked.job->id, [reply = asked.reply, job = asked.job, plans]() -> std::function<void()> {
        // Concurrent requests share one text; a job's tasks on the pool run one after another.
        std::shared_ptr<const std::string> text;
        if (const auto known = job->plans_text.lock(); known && known->plans == plans) {
          text = std::shared_ptr<const std::string>(known, &known->text);
        } else {
          const auto made = std::make_shared<const HostedJob::PlansText>(
              HostedJob::PlansText{plans, plans->json() + "\n"});
          job->plans_text = made;
          text = std::shared_ptr<const std::string>(made, &made->text);
        }
        return [reply, text] { reply(long_response(kJson, text)); };
      });
}

/// The frontier and the plan in force, recomputed from the inputs that the job keeps. Takes seconds
/// for long schedules.
struct PlannedAgain {
  Frontier frontier;
  Plan plan;
  PlanOptions options;
};

Result<PlannedAgain> planned_again(const JobSpec& spec, const PlanInForce& in_force) {
  const Pipeline pipeline = HARPE_TRY(planned_pipeline(spec));
  const Frontier frontier = HARPE_TRY(characterize(spec, pipeline, in_force.made_from));
  const PlanOptions options = plan_options(spec, in_force.made_from, frontier.profile());
  Plan plan = HARPE_TRY(
      frontier.plan_of_clocks(in_force.clocks, in_force.wait_until, options, in_force.knobs));
  return PlannedAgain{.frontier = frontier, .plan = std::move(plan), .options = options};
}

/// Returns the plan as harpe.plan/1, byte for byte the output of `harpe plan` for the same inputs.
Result<std::string> plan_document(const JobSpec& spec, const PlanInForce& in_force) {
  const PlannedAgain again = HARPE_TRY(planned_again(spec, in_force));
  return plan_json(again.plan);
}

/// Returns the certificate of the plan's lower bound as harpe.certificate/1.
Result<std::string> certificate_document(const JobSpec& spec, const PlanInForce& in_force) {
  const PlannedAgain again = HARPE_TRY(planned_again(spec, in_force));
  const Certificate certificate =
      HARPE_TRY(again.frontier.certificate(again.plan.iteration_time, again.options));
  return certificate_json(certificate);
}

using Document = Result<std::string> (*)(const JobSpec&, const PlanInForce&);

/// Responds with a document of the pipeline in the query, or of pipeline 0.
void give_document(const JobRequest& asked, Document write) {
  const Result<net::HttpQuery> query = net::HttpQuery::parse(asked.request.query, {"pipeline"});
  if (!query.ok()) return asked.reply(net::native_error(query.error()));
  std::uint32_t pipeline = 0;
  if (query->find("pipeline")) {
    const Result<std::uint32_t> given = query->number("pipeline");
    if (!given.ok()) return asked.reply(net::native_error(given.error()));
    pipeline = std::min<std::uint32_t>(*given, kMaxRanks);
  }
  Result<PlanInForce> plan = asked.job->job.plan_in_force(static_cast<int>(pipeline));
  if (!plan.ok()) return asked.reply(net::native_error(plan.error()));
  respond_aside(asked, kJson, [write, spec = asked.job->job.spec(), plan = *std::move(plan)] {
    return write(spec, plan);
  });
}

void give_plan(const JobRequest& asked) {
  give_document(asked, plan_document);
}

void give_certificate(const JobRequest& asked) {
  give_document(asked, certificate_document);
}

void give_energy(const JobRequest& asked) {
  const Result<net::HttpQuery> query = net::HttpQuery::parse(asked.request.query, {"from", "to"});
  if (!query.ok()) return asked.reply(net::native_error(query.error()));
  carbon::UtcTime from{0}, to{std::numeric_limits<std::int64_t>::max()};
  for (const auto& [name, time] : {std::pair{"from", &from}, {"to", &to}}) {
    if (!query->find(name)) continue;
    const Result<std::uint32_t> given = query->number(name);
    if (!given.ok()) return asked.reply(net::native_error(given.error()));
    time->since_1970 = *given;
  }
  std::vector<carbon::LedgerRun> runs = asked.job->ledger.runs(asked.job->id, from, to);
  const bool simulated = asked.job->job.status().synthetic;
  const double tokens = tokens_per_iteration(*asked.job);
  for (carbon::LedgerRun& run : runs) {
    run.simulated = simulated;
    run.tokens_per_iteration = tokens;
    run.meters = {"GPUs: energies that ranks reported of their iterations"};
    run.notes = {"hosts (CPUs, memory, network) were not measured"};
  }
  respond_aside(asked, kJson,
                [runs = std::move(runs)] { return carbon::ledger_json(runs) + "\n"; });
}

void give_pause(const JobRequest& asked) {
  const JobRegistry& registry = asked.context.registry;
  const PauseState pause = asked.job->job.pause();
  net::OrderedJson document{{"job", asked.job->id},
                            {"asked", pause.is != PauseState::Is::kNone},
                            {"activity", name_of(registry.hosting().activities().of(*asked.job))}};
  document["pause"] = pause_json(asked.job->job, pause,
                                 [&registry](Seconds at) { return registry.time().shown(at); });
  asked.reply(net::json_response(200, document));
}

void give_log(const JobRequest& asked) {
  respond_with_log(asked.context.registry.hosting(), asked.job, asked.request.query, asked.reply);
}

void list_jobs(ServerContext& context, const net::HttpRequest& request, const net::Reply& reply,
               const std::optional<std::string>& only_job) {
  const Result<ListRequest> wanted = parse_list_request(request.query);
  if (!wanted.ok()) return reply(net::native_error(wanted.error()));
  const JobRegistry::Page page =
      context.registry.list(wanted->after, wanted->limit, wanted->activities, only_job);
  std::string text = "{\"jobs\":[" + page.jobs + "]";
  if (page.next) text += ",\"next\":" + json_line(net::OrderedJson(*page.next));
  reply(json_text_response(200, text + "}"));
}

// --- Registering --------------------------------------------------------------------------------

int status_of(const JobRegistry::Registered& registered) {
  if (registered.created) return 201;
  return registered.proposed == Job::Proposed::kGathers ? 202 : 200;
}

void put_job(ServerContext& context, net::HttpRequest& request, const net::Reply& reply,
             const std::string& id) {
  JobRegistry& registry = context.registry;
  registry.put(
      id, std::move(request.body), request.client,
      [&registry, reply, id, forwarded = request.forwarded, user = request.peer.token_subject,
       most = context.options.most_ranks](const Result<JobRegistry::Registered>& registered) {
        if (!registered.ok()) return reply(net::native_error(registered.error()));
        const JobPtr job = registered->job;
        if (job == nullptr) {
          return reply(
              net::native_error(421, "unavailable", "another server has job " + id + " now"));
        }
        if (!user.empty()) job->ledger.set_user(user);
        registry.when_stored(
            job, [respond = while_commanded(registry.hosting(), job, forwarded, reply), id, job,
                  most, status = status_of(*registered),
                  specification = registered->specification](const Status& stored) {
              if (!stored.ok()) return respond(net::native_error(stored.error()));
              const int ranks = job->job.spec().shape.ranks();
              net::OrderedJson document{{"job", id},
                                        {"phase", name_of(job->job.phase())},
                                        {"ranks", ranks},
                                        {"specification", specification}};
              if (most > 0 && static_cast<std::size_t>(ranks) > most) {
                document["warning"] = "the job has " + std::to_string(ranks) +
                                      " ranks, but this server has connections for " +
                                      std::to_string(most) + ": docs/server.md, Limits";
              }
              respond(net::json_response(status, document));
            });
      });
}

void register_rank(const JobRequest& asked) {
  const Result<RankRegistration> rank = parse_rank_registration(asked.request.body);
  if (!rank.ok()) return asked.reply(net::native_error(rank.error()));
  if (rank->take_over && !asked.may_decide) {
    return asked.reply(net::native_error(403, "no_permission",
                                         "take_over needs a token that is for this job alone"));
  }
  JobRegistry& registry = asked.context.registry;
  const Result<RankEntry> entry = registry.register_rank(asked.job, *rank, asked.request.client);
  if (!entry.ok()) return asked.reply(job_error(entry.error()));
  if (entry->gathers) {
    return asked.reply(net::native_error(
        409, "gathering", entry->why + " (" + std::to_string(entry->present) + " are there)"));
  }
  registry.when_stored(asked.job, [reply = asked.reply, job = asked.job, entry = *entry,
                                   coordinates = rank->coordinates, session = rank->session,
                                   life = asked.job->job.incarnation()](const Status& stored) {
    if (!stored.ok()) return reply(net::native_error(stored.error()));
    if (job->job.incarnation() != life || job->job.session(coordinates) != session) {
      return reply(
          net::native_error(409, "conflict", "another process took the place in the meantime"));
    }
    RankResponse response = rank_response(*job);
    response.rank = entry.rank;
    response.start = entry.start;
    reply(json_text_response(
        200, rank_response_json(response,
                                assignments_text(*job, {coordinates.data, coordinates.stage}))));
  });
}

void end_rank(const JobRequest& asked) {
  const Result<RankEnd> end = parse_rank_end(asked.request.body);
  if (!end.ok()) return asked.reply(net::native_error(end.error()));
  JobRegistry& registry = asked.context.registry;
  const Status ended =
      registry.act(asked.job, [&](Job& job, Seconds now) { return job.end_rank(*end, now); });
  if (!ended.ok()) return asked.reply(job_error(ended.error()));
  registry.when_stored(asked.job, [reply = asked.reply, job = asked.job](const Status& stored) {
    if (!stored.ok()) return reply(net::native_error(stored.error()));
    reply(net::json_response(200, {{"ended", job->job.ended().has_value()}}));
  });
}

// --- Training -----------------------------------------------------------------------------------

void take_report(const JobRequest& asked) {
  const Result<IterationReport> report = parse_iteration_report(asked.request.body);
  if (!report.ok()) return asked.reply(net::native_error(report.error()));
  JobRegistry& registry = asked.context.registry;
  ++registry.counts().reports;
  const Result<ReportTaken> taken =
      registry.act(asked.job, [&](Job& job, Seconds now) { return job.report(*report, now); });
  if (!taken.ok()) return asked.reply(job_error(taken.error()));
  const Job& job = asked.job->job;
  RankResponse response = rank_response(*asked.job);
  response.version = job.version();
  response.energy_refused = taken->energy_refused;
  std::string assignments;
  if (job.version() > report->known || (report->epoch != 0 && report->epoch != response.epoch)) {
    assignments =
        assignments_text(*asked.job, {report->coordinates.data, report->coordinates.stage});
  }
  asked.reply(json_text_response(200, rank_response_json(response, assignments)));
}

void give_assignments(const JobRequest& asked) {
  const Result<net::HttpQuery> query =
      net::HttpQuery::parse(asked.request.query, {"data", "stage"});
  if (!query.ok()) return asked.reply(net::native_error(query.error()));
  const Result<std::optional<StageCoordinates>> coordinates =
      coordinates_of(*query, asked.job->job.spec().shape);
  if (!coordinates.ok()) return asked.reply(net::native_error(coordinates.error()));
  const StageCoordinates at = coordinates->value_or(StageCoordinates());
  asked.reply(json_text_response(
      200, rank_response_json(rank_response(*asked.job), assignments_text(*asked.job, at))));
}

void stream_events(const JobRequest& asked) {
  const Result<net::HttpQuery> query =
      net::HttpQuery::parse(asked.request.query, {"data", "stage", "tensor", "session"});
  if (!query.ok()) return asked.reply(net::native_error(query.error()));
  const Job& job = asked.job->job;
  const Result<std::optional<StageCoordinates>> coordinates =
      coordinates_of(*query, job.spec().shape);
  if (!coordinates.ok()) return asked.reply(net::native_error(coordinates.error()));
  EventListener listener{.coordinates = *coordinates};
  if (const auto session = query->find("session")) {
    const Result<std::uint32_t> tensor =
        query->find("tensor") ? query->number("tensor") : Result<std::uint32_t>(0U);
    if (!tensor.ok()) return asked.reply(net::native_error(tensor.error()));
    const StageCoordinates at = coordinates->value_or(StageCoordinates());
    const RankCoordinates rank{
        .data = at.pipeline,
        .stage = at.stage,
        .tensor = static_cast<int>(std::min<std::uint32_t>(*tensor, kMaxRanks))};
    if (!job.spec().shape.holds(rank) || job.session(rank) != *session) {
      return asked.reply(
          net::native_error(409, "conflict", "this session does not hold the place"));
    }
    listener = {.coordinates = at, .tensor = rank.tensor, .session = std::string(*session)};
  }
  if (listener.coordinates) asked.context.registry.wake(asked.job);
  asked.reply({.content_type = "text/event-stream",
               .headers = {{"Cache-Control", "no-cache"}},
               .stream = job_events(asked.context.registry, asked.job, std::move(listener))});
}

// --- Requests of users --------------------------------------------------------------------------

/// Responds when the change is stored.
void respond_when_stored(const JobRequest& asked, const Status& changed,
                         net::OrderedJson document) {
  if (!changed.ok()) return asked.reply(job_error(changed.error()));
  document["phase"] = name_of(asked.job->job.phase());
  document["version"] = asked.job->job.version();
  document["ranks_unheard"] = asked.job->job.unheard(asked.context.registry.now());
  asked.context.registry.when_stored(
      asked.job, [reply = asked.reply, document = std::move(document)](const Status& stored) {
        reply(stored.ok() ? net::json_response(200, document) : net::native_error(stored.error()));
      });
}

/// Returns the reason why no pipeline slows down for a straggler yet; empty if they do.
std::string why_none_waits(const JobStatus& status) {
  if (status.rolled_back_until) {
    return "all pipelines run at all-max until iteration " +
           std::to_string(*status.rolled_back_until) +
           ", or until the objective changes, because plans missed it (see the job's log): none "
           "slows down for the straggler before";
  }
  if (status.phase == JobPhase::kRunning || status.phase == JobPhase::kStraggling) return {};
  return std::string("no plan is in force while the job is ") + name_of(status.phase) +
         ": the other pipelines slow down for it once one is";
}

void change_straggler(const JobRequest& asked) {
  const auto pipeline = small_number(path_part(asked.rest.substr(kStragglers.size())));
  if (!pipeline) return asked.reply(not_found("a pipeline is a number from 0"));
  JobRegistry& registry = asked.context.registry;
  if (asked.request.method == "DELETE") {
    const Status cleared = registry.act(
        asked.job, [&](Job& job, Seconds now) { return job.clear_straggler(*pipeline, now); });
    return respond_when_stored(asked, cleared, {{"pipeline", *pipeline}, {"factor", 1}});
  }
  const Result<plan::Straggler> straggler =
      parse_straggler(asked.request.body, *pipeline, registry.now(), registry.time().wall());
  if (!straggler.ok()) return asked.reply(net::native_error(straggler.error()));
  const Status declared = registry.act(
      asked.job, [&](Job& job, Seconds now) { return job.set_straggler(*straggler, now); });
  net::OrderedJson document{
      {"pipeline", *pipeline},
      {"factor", straggler->factor},
      {"until", straggler->until ? net::OrderedJson(registry.time().shown(*straggler->until).value)
                                 : net::OrderedJson()}};
  if (asked.job->job.spec().shape.data == 1 && straggler->factor > 1) {
    document["warning"] =
        "the job has no other pipeline that could slow down for it, and this pipeline runs at full "
        "speed while it is declared slow, which may cost more than its plan saves";
  } else if (straggler->factor > 1) {
    const std::string why = why_none_waits(asked.job->job.status());
    if (!why.empty()) document["warning"] = why;
  }
  respond_when_stored(asked, declared, std::move(document));
}

void change_objective(const JobRequest& asked) {
  const Result<Objective> objective = parse_objective(asked.request.body);
  if (!objective.ok()) return asked.reply(net::native_error(objective.error()));
  const Status changed = asked.context.registry.act(
      asked.job, [&](Job& job, Seconds now) { return job.set_objective(*objective, now); });
  net::OrderedJson document{{"objective", own_json(objective_json(*objective))}};
  document["plans"] = running_plans_json(asked.job->job);
  if (!objective->is_always_feasible() && asked.job->job.plans() == nullptr) {
    document["warning"] =
        "the job has no plans yet, so this may be impossible: then the nearest plan is used, and "
        "the job's log states what is possible";
  }
  respond_when_stored(asked, changed, std::move(document));
}

void change_pace(const JobRequest& asked) {
  const Result<std::optional<Pace>> pace = parse_pace(asked.request.body);
  if (!pace.ok()) return asked.reply(net::native_error(pace.error()));
  const Status changed = asked.context.registry.act(
      asked.job, [&](Job& job, Seconds now) { return job.set_pace(*pace, now); });
  net::OrderedJson document;
  document["pace"] = *pace ? own_json(pace_json(**pace)) : net::OrderedJson();
  document["plans"] = running_plans_json(asked.job->job);
  respond_when_stored(asked, changed, std::move(document));
}

void delete_job(ServerContext& context, const net::Reply& reply, const std::string& id) {
  context.registry.hosting().claims().remove(id, [reply, id](const Result<bool>& removed) {
    if (!removed.ok()) return reply(net::native_error(removed.error()));
    reply(*removed ? net::json_response(200, {{"deleted", true}}) : no_such_job(id));
  });
}

/// Paths below a job, each with its only method.
struct SubRoute {
  std::string_view path, method;
  void (*handle)(const JobRequest&);
};
constexpr SubRoute kSubRoutes[] = {
    {"/ranks", "POST", register_rank},
    {"/reports", "POST", take_report},
    {"/end", "POST", end_rank},
    {"/assignments", "GET", give_assignments},
    {"/events", "GET", stream_events},
    {"/objective", "PUT", change_objective},
    {"/pace", "PUT", change_pace},
    {"/specification", "GET", give_specification},
    {"/profile", "GET", give_profile},
    {"/frontier", "GET", give_frontier},
    {"/plans", "GET", give_plans},
    {"/plan", "GET", give_plan},
    {"/certificate", "GET", give_certificate},
    {"/energy", "GET", give_energy},
    {"/log", "GET", give_log},
    {"/pause", "GET", give_pause},
};

/// Returns the part of a path after the job, such as "/ranks".
std::string_view rest_of(std::string_view path) {
  const std::size_t end = path.find('/', kJobsPath.size() + 1);
  return end == std::string_view::npos ? std::string_view() : path.substr(end);
}

void handle_job(const JobRequest& asked) {
  if (asked.rest.empty()) {
    return asked.reply(json_text_response(200, status_text(asked.context, *asked.job)));
  }
  if (asked.rest.starts_with(kStragglers)) return change_straggler(asked);
  if (asked.rest == kCarbonOfJob) return handle_job_carbon(asked);
  std::ranges::find(kSubRoutes, asked.rest, &SubRoute::path)->handle(asked);
}

}  // namespace

std::string path_part(std::string_view part) {
  std::string text;
  // A plus in a path is literal, unlike in a query.
  for (const char c : part) c == '+' ? text += "%2B" : text += c;
  Result<std::string> decoded = net::percent_decoded(text);
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

std::string methods_of_jobs(std::string_view path) {
  if (path == kJobsPath) return "GET";
  if (!job_of_path(path)) return {};
  const std::string_view rest = rest_of(path);
  if (rest.empty()) return "GET, PUT, DELETE";
  if (rest.starts_with(kStragglers)) return "PUT, DELETE";
  if (rest == kCarbonOfJob) return "GET, PUT, DELETE";
  const auto route = std::ranges::find(kSubRoutes, rest, &SubRoute::path);
  return route == std::end(kSubRoutes) ? std::string() : std::string(route->method);
}

bool needs_job_in_memory(const net::HttpRequest& request) {
  return !rest_of(request.path).empty() || request.method == "GET";
}

std::string status_text(const ServerContext& context, const HostedJob& job) {
  const JobRegistry& registry = context.registry;
  const ServiceClock& time = registry.time();
  net::OrderedJson document{{"id", job.id}, {"epoch", job.claim.epoch}};
  document["characterization"] = own_json(characterization_text(job));
  document["search"] = own_json(search_text(job));
  const Activity activity = registry.hosting().activities().of(job);
  document.update(
      own_json("{" + activity_text(activity, job.job.heard(), job.job.ended(), time) + "}"));
  document.update(job_status_json(job.job, [&time](Seconds at) { return time.shown(at); }));
  document["carbon"] = own_json(carbon_text(context.options.carbon, job));
  const std::string& specification = job.job.specification_text();
  document["spec"] =
      specification.size() <= kLongestShown ? own_json(specification) : net::OrderedJson();
  return json_line(document);
}

bool handle_jobs(ServerContext& context, net::HttpRequest& request, const net::Reply& reply,
                 const std::optional<std::string>& only_job) {
  if (request.path == kJobsPath) {
    list_jobs(context, request, reply, only_job);
    return true;
  }
  const std::optional<std::string> id = job_of_path(request.path);
  if (!id) return false;
  std::string rest(rest_of(request.path));
  if (!is_job_id(*id)) {
    reply(net::native_error(400, "invalid_input",
                            "the id of a job has 1 to 128 letters, digits or any of ._-+"));
    return true;
  }
  if (rest == "/") {
    reply(not_found("there is nothing at " + request.path.substr(0, 200) +
                    "; remove the slash at the end"));
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
  const net::Reply guarded =
      while_commanded(context.registry.hosting(), job, request.forwarded, reply);
  const bool may_decide = !request.needs_token || only_job == id;
  handle_job({context, request, guarded, std::move(job), std::move(rest), may_decide});
  return true;
}

}  // namespace harpe::training
