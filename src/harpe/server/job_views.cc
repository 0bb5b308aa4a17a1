#include "harpe/server/job_views.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/http/http_query.h"
#include "harpe/profile/profile.h"
#include "harpe/server/long_response.h"
#include "harpe/server/plan_document.h"

namespace harpe {
namespace {

Result<HttpQuery> list_query(std::string_view text) {
  return HttpQuery::parse(text, {"after", "limit", "activity"});
}

constexpr int kMostLogged = 1000;
constexpr std::size_t kUsualListed = 1000, kMostListed = 10'000;
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
Result<std::set<Activity>> activities_of(const HttpQuery& query) {
  const std::set<Activity> all{Activity::kActive, Activity::kIdle, Activity::kEnded};
  const auto given = query.find("activity");
  if (!given) return all;
  std::set<Activity> wanted;
  for (std::string_view rest = *given; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    const auto known =
        std::ranges::find_if(all, [&](Activity activity) { return word == name_of(activity); });
    if (known == all.end()) break;
    wanted.insert(*known);
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (rest.empty()) return wanted;
  }
  return Error::invalid("activity is some of active, idle and ended, with commas between");
}

Result<std::size_t> limit_of(const HttpQuery& query) {
  if (!query.find("limit")) return kUsualListed;
  const std::uint32_t number = HARPE_TRY(query.number("limit"));
  if (number < 1 || number > kMostListed) {
    return Error::invalid("limit is a number from 1 to 10000");
  }
  return std::size_t{number};
}

}  // namespace

std::size_t most_listed(std::string_view text) {
  const Result<HttpQuery> query = list_query(text);
  const Result<std::size_t> limit = query.ok() ? limit_of(*query) : query.error();
  return limit.ok() ? *limit : kUsualListed;
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

void give_log(const JobRequest& asked) {
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
  asked.context.registry.hosting().log_of(
      asked.job, after, kMostLogged,
      [reply = asked.reply](Result<std::vector<LoggedEvent>> events) {
        if (!events.ok()) return reply(native_error(events.error()));
        OrderedJson list = OrderedJson::array();
        for (const LoggedEvent& event : *events) {
          list.push_back({{"sequence", event.sequence},
                          {"at", event.at},
                          {"kind", event.kind},
                          {"text", event.text}});
        }
        reply(json_response(200, {{"events", std::move(list)}}));
      });
}

void list_jobs(ServerContext& context, const HttpRequest& request, const Reply& reply,
               const std::optional<std::string>& only_job) {
  const Result<HttpQuery> query = list_query(request.query);
  if (!query.ok()) return reply(native_error(query.error()));
  const Result<std::set<Activity>> activities = activities_of(*query);
  if (!activities.ok()) return reply(native_error(activities.error()));
  const Result<std::size_t> limit = limit_of(*query);
  if (!limit.ok()) return reply(native_error(limit.error()));
  const std::string after(query->find("after").value_or(""));
  const JobRegistry::Page page = context.registry.list(after, *limit, *activities, only_job);
  std::string text = "{\"jobs\":[" + page.jobs + "]";
  if (page.next) text += ",\"next\":" + json_line(OrderedJson(*page.next));
  reply(json_text_response(200, text + "}"));
}

}  // namespace harpe
