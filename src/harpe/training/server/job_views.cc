#include "harpe/training/server/job_views.h"

#include <functional>
#include <memory>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/net/http/http_query.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/training/job/job_status_json.h"
#include "harpe/training/server/hosted_request.h"
#include "harpe/training/server/long_response.h"
#include "harpe/training/server/plan_document.h"

namespace harpe {
namespace {

constexpr const char* kJson = "application/json";

/// Writes a response where it delays no other job.
void respond_aside(const JobRequest& asked, std::string content_type,
                   std::function<std::string()> write) {
  asked.context.registry.hosting().aside(
      asked.job->id,
      [reply = asked.reply, content_type = std::move(content_type),
       write = std::move(write)]() -> std::function<void()> {
        const auto text = std::make_shared<const std::string>(write());
        return [reply, content_type, text] { reply(long_response(content_type, text)); };
      });
}

/// 404 before there are plans.
std::shared_ptr<const PlanTable> plans_or_response(const JobRequest& asked) {
  std::shared_ptr<const PlanTable> plans = asked.job->job.shared_plans();
  if (plans == nullptr) {
    asked.reply(not_found(std::string("the job has no plans yet: it is ") +
                          name_of(asked.job->job.phase())));
  }
  return plans;
}

std::string frontier_text(const PlanTable& plans) {
  const auto point = [](const TablePlan& plan) {
    return "{\"time_s\":" + shortest(plan.time.value) +
           ",\"energy_j\":" + shortest(plan.energy.value) + "}";
  };
  std::string text = "{\"all_max\":" + point(plans.all_max()) +
                     ",\"waiting_power_w\":" + shortest(plans.waiting_power().value) +
                     ",\"plans\":[";
  for (const TablePlan& plan : plans.plans()) {
    if (text.back() != '[') text += ',';
    text += point(plan);
  }
  return text + "]}\n";
}

/// "active,idle" and the like; all where it is not given.
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
  const std::shared_ptr<const PlanTable> plans = plans_or_response(asked);
  if (plans == nullptr) return;
  respond_aside(asked, kJson, [plans] { return frontier_text(*plans); });
}

void give_plans(const JobRequest& asked) {
  const std::shared_ptr<const PlanTable> plans = plans_or_response(asked);
  if (plans == nullptr) return;
  asked.context.registry.hosting().aside(
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

using Document = Result<std::string> (*)(const JobSpec&, const PlanInForce&);

/// Of the pipeline that the query names, the first where it names none.
void give_document(const JobRequest& asked, Document write) {
  const Result<HttpQuery> query = HttpQuery::parse(asked.request.query, {"pipeline"});
  if (!query.ok()) return asked.reply(native_error(query.error()));
  std::uint32_t pipeline = 0;
  if (query->find("pipeline")) {
    const Result<std::uint32_t> given = query->number("pipeline");
    if (!given.ok()) return asked.reply(native_error(given.error()));
    pipeline = std::min<std::uint32_t>(*given, kMaxRanks);
  }
  Result<PlanInForce> plan = asked.job->job.plan_in_force(static_cast<int>(pipeline));
  if (!plan.ok()) return asked.reply(native_error(plan.error()));
  asked.context.registry.hosting().aside(
      asked.job->id,
      [reply = asked.reply, write, spec = asked.job->job.spec(),
       plan = *std::move(plan)]() -> std::function<void()> {
        Result<std::string> text = write(spec, plan);
        if (!text.ok()) return [reply, error = text.error()] { reply(native_error(error)); };
        return [reply, shared = std::make_shared<const std::string>(*std::move(text))] {
          reply(long_response(kJson, shared));
        };
      });
}

}  // namespace

void give_plan(const JobRequest& asked) {
  give_document(asked, plan_document);
}

void give_certificate(const JobRequest& asked) {
  give_document(asked, certificate_document);
}

void give_pause(const JobRequest& asked) {
  const JobRegistry& registry = asked.context.registry;
  const PauseState pause = asked.job->job.pause();
  OrderedJson document{{"job", asked.job->id},
                       {"asked", pause.is != PauseState::Is::kNone},
                       {"activity", name_of(registry.hosting().activity(*asked.job))}};
  document["pause"] = pause_json(asked.job->job, pause,
                                 [&registry](Seconds at) { return registry.time().shown(at); });
  asked.reply(json_response(200, document));
}

void give_log(const JobRequest& asked) {
  respond_with_log(asked.context.registry.hosting(), asked.job, asked.request.query, asked.reply);
}

void list_jobs(ServerContext& context, const HttpRequest& request, const Reply& reply,
               const std::optional<std::string>& only_job) {
  const Result<ListRequest> wanted = parse_list_request(request.query);
  if (!wanted.ok()) return reply(native_error(wanted.error()));
  const JobRegistry::Page page =
      context.registry.list(wanted->after, wanted->limit, wanted->activities, only_job);
  std::string text = "{\"jobs\":[" + page.jobs + "]";
  if (page.next) text += ",\"next\":" + json_line(OrderedJson(*page.next));
  reply(json_text_response(200, text + "}"));
}

}  // namespace harpe
