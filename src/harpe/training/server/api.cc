#include "harpe/training/server/api.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "harpe/base/json_text.h"
#include "harpe/net/http/http_responses.h"
#include "harpe/training/server/job_request.h"
#include "harpe/training/server/job_routes.h"
#include "harpe/training/server/recurring_routes.h"
#include "harpe/training/server/zeus_recurring_routes.h"
#include "harpe/training/server/zeus_routes.h"

namespace harpe::training {

using nlohmann::literals::operator""_json_pointer;

namespace {

constexpr std::size_t kMebibyte = 1024 * 1024;
/// A parsed value takes 130 bytes, 280 with a name. A job's schedule may have a million
/// instructions. A body that is parsed on the loop's thread must not block it.
constexpr std::ptrdiff_t kMostValuesOfJob = 2'000'000, kMostValues = 500'000;

/// Returns an upper bound on the number of values in a JSON body.
std::ptrdiff_t values_in(std::string_view json) {
  return std::ranges::count_if(json, [](char c) { return c == ',' || c == '[' || c == '{'; });
}

bool is_open(const std::string& path) {
  return path == "/health" || path == "/openapi.yaml";
}

net::HttpResponse unauthorized(const std::string& path, const std::string& why) {
  net::HttpResponse response = net::error_at(path, 401, "no_permission", why);
  response.headers.emplace_back("WWW-Authenticate", R"(Bearer realm="harpe")");
  return response;
}

constexpr std::size_t kRefusedShown = 16;

void health(ServerContext& context, const net::Reply& reply) {
  Hosting& hosting = context.registry.hosting();
  const bool works = hosting.saver().works() && hosting.claims().is_lease_held();
  const char* store = !hosting.has_store() ? "none" : works ? "ok" : "failing";
  std::vector<std::string> refused = hosting.saver().refused();
  const std::size_t count = refused.size();
  refused.resize(std::min(count, kRefusedShown));
  reply(net::json_response(200,
                           {{"status", works && count == 0 ? "ok" : "degraded"},
                            {"version", context.options.version},
                            {"jobs", hosting.table().count()},
                            {"jobs_in_memory", hosting.table().loaded().size()},
                            {"store", store},
                            {"store_damage", hosting.verifier().damage().empty()
                                                 ? net::OrderedJson()
                                                 : net::OrderedJson(hosting.verifier().damage())},
                            {"jobs_refused", count},
                            {"refused", refused},
                            {"uptime_s", (hosting.clock().now() - context.started).value}}));
}

/// Returns the hosted id of the job that a request refers to, on this server or another one that
/// shares its store.
std::optional<std::string> job_of(const net::HttpRequest& request) {
  std::optional<std::string> recurring = recurring_job_of_path(request.path);
  if (!recurring) recurring = job_of_zeus_recurring(request);
  if (recurring) return RecurringJobs::hosted_id(*recurring);
  std::optional<std::string> job = job_of_path(request.path);
  return job ? job : job_of_zeus_request(request);
}

bool is_hosted_id(const std::string& id) {
  if (!id.starts_with(kRecurringIds)) return is_job_id(id);
  return RecurringJobs::is_id(std::string_view(id).substr(kRecurringIds.size()));
}

/// Returns true if a request needs the current state of its job, and so the job in memory.
bool needs_in_memory(const net::HttpRequest& request) {
  if (is_zeus_recurring_path(request.path)) return request.path != "/jobs";
  if (recurring_job_of_path(request.path)) return needs_recurring_job_in_memory(request);
  return !job_of_path(request.path) || needs_job_in_memory(request);
}

/// Returns the methods of a path; empty if there is no such route, or if it is one of Zeus's, which
/// reports a wrong method itself.
std::string methods_of(const std::string& path) {
  if (path == "/health" || path == "/metrics" || path == "/openapi.yaml" ||
      path == kCarbonSourcesPath) {
    return "GET";
  }
  std::string methods = methods_of_recurring_jobs(path);
  return methods.empty() ? methods_of_jobs(path) : methods;
}

bool has_method(const std::string& methods, const std::string& method) {
  for (std::string_view rest = methods; !rest.empty();) {
    if (rest.substr(0, rest.find(',')) == method) return true;
    const std::size_t next = rest.find(", ");
    rest = next == std::string_view::npos ? std::string_view() : rest.substr(next + 2);
  }
  return false;
}

}  // namespace

std::optional<Seconds> ClientRates::take(const std::string& client, Instant now) {
  if (per_second_ <= 0) return std::nullopt;
  const double most = std::max(1.0, per_second_);
  const auto [found, is_new] = buckets_.try_emplace(client, Bucket{most, now});
  Bucket& bucket = found->second;
  const double since = std::max(0.0, (now - bucket.filled).value);
  bucket.requests = std::min(most, bucket.requests + since * per_second_);
  bucket.filled = std::max(bucket.filled, now);
  const bool allowed = bucket.requests >= 1;
  const double missing = 1 - bucket.requests;
  if (allowed) bucket.requests -= 1;
  if (is_new && buckets_.size() >= next_sweep_) forget_full(now);
  if (allowed) return std::nullopt;
  return Seconds{missing / per_second_};
}

void ClientRates::forget_full(Instant now) {
  std::erase_if(buckets_, [&](const auto& entry) {
    const Bucket& bucket = entry.second;
    return bucket.requests + (now - bucket.filled).value * per_second_ >= per_second_;
  });
  next_sweep_ = std::max<std::size_t>(1024, buckets_.size() * 2);
}

ServerApi::ServerApi(JobRegistry& registry, RecurringJobs& recurring_jobs, ServerApiOptions options,
                     JobOwners* owners)
    : options_(std::move(options)),
      context_{registry, recurring_jobs, options_, registry.clock().now(), 0, 0, {}},
      rates_(options_.requests_per_second),
      zeus_(std::make_unique<ZeusRoutes>(registry, options_.schedule_patience)),
      owners_(owners) {}

ServerApi::~ServerApi() = default;

std::optional<net::HttpResponse> ServerApi::limit_rate(const net::HttpRequest& request) {
  const auto wait = rates_.take(request.client, context_.registry.clock().now());
  if (!wait) return std::nullopt;
  ++context_.rate_limited;
  net::HttpResponse response = net::error_at(request.path, 429, "unavailable",
                                             "too many requests from this client; wait a moment");
  response.headers.emplace_back(
      "Retry-After",
      std::to_string(static_cast<std::int64_t>(std::ceil(std::max(1.0, wait->value)))));
  return response;
}

std::optional<net::HttpResponse> ServerApi::check_token(const net::HttpRequest& request,
                                                        std::optional<std::string>& only_job,
                                                        std::string& user) const {
  if (!request.needs_token || is_open(request.path)) return std::nullopt;
  const std::string_view token = net::bearer_token(request.authorization);
  if (token.empty() || !options_.token_keys) {
    return unauthorized(request.path, "Missing bearer token.");
  }
  const Result<net::TokenClaims> claims = options_.token_keys->verify(token, std::time(nullptr));
  if (!claims.ok()) return unauthorized(request.path, claims.error().text());
  const char* needed = request.method == "GET" || request.method == "HEAD" ? kJobRead : kJobWrite;
  if (std::ranges::find(claims->scopes, needed) == claims->scopes.end()) {
    return net::error_at(request.path, 403, "no_permission",
                         std::string("Token lacks the required scope '") + needed + "'.");
  }
  user = claims->subject;
  if (!claims->job) return std::nullopt;
  only_job = claims->job;
  const std::optional<std::string> job = job_of_path(request.path);
  if (job == claims->job || request.path == kJobsPath || request.path == kCarbonSourcesPath) {
    return std::nullopt;
  }
  return net::error_at(request.path, 403, "no_permission",
                       "Token is for job '" + *claims->job + "' alone.");
}

void ServerApi::note_refused(const net::HttpRequest& request, const net::HttpResponse& refused) {
  const std::optional<std::string> id = job_of_path(request.path);
  const JobRegistry::JobPtr job = id ? context_.registry.find(*id) : nullptr;
  if (job == nullptr || job->job.asleep()) return;  // a refused request does not wake the job
  if (request.method != "POST" && request.method != "PUT") return;
  const net::OrderedJson body = json_or_discarded(refused.body);
  const std::string why = body.value("/error/message"_json_pointer, std::string("its token"));
  context_.registry.act(job, [&](Job& one, Seconds now) {
    one.refused(request.client, why + " (status " + std::to_string(refused.status) + ")", now);
    return true;
  });
}

std::optional<net::HttpResponse> ServerApi::refuse_unread(const net::HttpRequest& head) {
  std::optional<std::string> only_job;
  std::string user;
  std::optional<net::HttpResponse> refused = check_token(head, only_job, user);
  // A request that is read is counted in `handle`.
  if (!refused) return std::nullopt;
  if (auto limited = limit_rate(head)) refused = std::move(limited);
  ++context_.requests;
  ++context_.responses[refused->status];
  return refused;
}

void ServerApi::handle(net::HttpRequest request, net::Reply reply) {
  ++context_.requests;
  net::Reply counted = [this, reply = std::move(reply)](net::HttpResponse response) {
    ++context_.responses[response.status];
    reply(std::move(response));
  };
  std::optional<std::string> only_job;
  if (auto limited = limit_rate(request)) return counted(*std::move(limited));
  if (auto refused = check_token(request, only_job, request.peer.token_subject)) {
    note_refused(request, *refused);
    return counted(*std::move(refused));
  }
  const std::ptrdiff_t most = request.method == "PUT" ? kMostValuesOfJob : kMostValues;
  if (values_in(request.body) > most) {
    return counted(net::error_at(request.path, 413, "invalid_input",
                                 "the body has more than " + std::to_string(most) + " values"));
  }
  name_zeus_recurring_job(request);
  JobOwners::Handler here = [this, only_job](net::HttpRequest asked, const net::Reply& answered) {
    respond(std::move(asked), answered, only_job);
  };
  if (owners_ == nullptr) return here(std::move(request), std::move(counted));
  if (request.path == kJobsPath || request.path == kRecurringPath) {
    return owners_->route_list(std::move(request), std::move(counted), here);
  }
  std::optional<std::string> job = job_of(request);
  if (!job || !is_hosted_id(*job)) return here(std::move(request), std::move(counted));
  owners_->route(*job, std::move(request), std::move(counted), std::move(here));
}

void ServerApi::respond(net::HttpRequest request, const net::Reply& reply,
                        const std::optional<std::string>& only_job) {
  const std::string methods = methods_of(request.path);
  if (!methods.empty() && !has_method(methods, request.method)) {
    return reply(net::wrong_method(methods));
  }
  Hosting& hosting = context_.registry.hosting();
  const std::optional<std::string> job = job_of(request);
  const bool is_there =
      !job || hosting.table().find(*job) != nullptr || !hosting.table().holds(*job);
  if (is_there || !needs_in_memory(request)) return respond_now(request, reply, only_job);
  const auto kept = std::make_shared<net::HttpRequest>(std::move(request));
  hosting.memory().load(*job, [this, kept, reply, only_job](const Result<HostedPtr>& loaded) {
    if (loaded.ok()) return respond_now(*kept, reply, only_job);
    const int status = net::http_status(loaded.error().code);
    const std::string why = loaded.error().text();
    if (net::is_native_path(kept->path)) return reply(net::native_error(loaded.error()));
    reply(is_zeus_recurring_path(kept->path) ? zeus_recurring_error(status, why)
                                             : zeus_error(status, why));
  });
}

void ServerApi::respond_now(net::HttpRequest& request, const net::Reply& reply,
                            const std::optional<std::string>& only_job) {
  if (handle_jobs(context_, request, reply, only_job)) return;
  if (handle_recurring_jobs(context_.recurring_jobs, request, reply)) return;
  if (handle_zeus_recurring(context_.recurring_jobs, request, reply)) return;
  if (zeus_->handle(request, reply)) return;
  if (request.path == "/health") return health(context_, reply);
  if (request.path == kCarbonSourcesPath) return give_carbon_sources(context_, reply);
  if (request.path == "/metrics") return handle_server_metrics(context_, reply);
  if (request.path == "/openapi.yaml") {
    return reply({.content_type = "application/yaml", .body = std::string(openapi_document())});
  }
  reply(net::error_at(request.path, 404, "not_found",
                      "There is no resource at " + request.path.substr(0, 200)));
}

void ServerApi::tick() {
  zeus_->tick();
  if (options_.carbon != nullptr) options_.carbon->tick();
}

std::optional<std::size_t> body_limit_of(std::string_view method, std::string_view path) {
  if (method == "PUT" && path.starts_with("/v1/jobs/") &&
      path.find('/', std::string_view("/v1/jobs/").size()) == std::string_view::npos) {
    return 16 * kMebibyte;
  }
  if (method != "POST") return std::nullopt;
  if (path == "/register_job" || path.starts_with("/result/")) return 32 * kMebibyte;
  if (path.ends_with("/reports")) return kMebibyte;
  return std::nullopt;
}

}  // namespace harpe::training
