#include "harpe/training/server/job_views.h"

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon/ledger_json.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/net/http/http_query.h"
#include "harpe/plan/frontier/certificate.h"
#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/pipeline.h"
#include "harpe/training/job/job.h"
#include "harpe/training/job/job_status_json.h"
#include "harpe/training/job/make_plans.h"
#include "harpe/training/server/hosted_request.h"
#include "harpe/training/server/long_response.h"
#include "harpe/training/wire/carbon_terms.h"
#include "harpe/training/wire/job_spec.h"

namespace harpe::training {
namespace {

constexpr const char* kJson = "application/json";

/// Writes a response where it delays no other job.
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

/// 404 before there are plans.
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

}  // namespace

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
        // All who ask at once share one text; the pieces of work of a job follow each other.
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

namespace {

/// The frontier and the plan in force, computed again from what the job keeps of them: seconds for
/// long schedules.
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

/// Returns the plan as harpe.plan/1: what `harpe plan` writes for the same inputs, byte for byte.
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

/// Of the pipeline that the query names, the first where it names none.
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

}  // namespace

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

}  // namespace harpe::training
