#include "harpe/node/agent/http_api.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "harpe/node/agent/http_json.h"
#include "harpe/node/agent/metrics.h"

namespace harpe::node {
namespace {

/// Returns the group of a route, which is also the scope that it needs; empty if it needs none.
std::string group_of(const net::HttpRequest& request) {
  const std::string& path = request.path;
  if (path.starts_with("/gpu/set_") || path.starts_with("/gpu/reset_")) return kGpuControl;
  if (path.starts_with("/gpu/")) return kGpuRead;
  if (path.starts_with("/cpu/")) return kCpuRead;
  if (path == "/v1/cpus") return kCpuRead;
  if (path.starts_with("/v1/leases")) return request.method == "GET" ? kGpuRead : kGpuControl;
  if (path.starts_with("/v1/")) return kGpuRead;
  return {};
}

/// Returns the scopes that a token needs; metrics need the scopes of GPUs and of CPUs.
std::vector<std::string> scopes_of(const net::HttpRequest& request, const std::string& group) {
  if (request.path == "/metrics") return {kGpuRead, kCpuRead};
  if (group.empty()) return {};
  return {group};
}

bool is_open(const std::string& path) {
  return path == "/discover" || path == "/time" || path == "/health";
}

net::HttpResponse unauthorized(const std::string& path, const std::string& why) {
  net::HttpResponse response = net::error_at(path, 401, "no_permission", why);
  response.headers.emplace_back("WWW-Authenticate", R"(Bearer realm="zeusd")");
  return response;
}

}  // namespace

AgentApi::AgentApi(Controller& controller, net::ServerLoop& loop, Clock& clock, ApiOptions options)
    : options_(std::move(options)),
      power_(controller, loop, clock),
      context_{controller, loop, clock, power_, options_, clock.now()} {}

std::optional<net::HttpResponse> AgentApi::refuse(net::HttpRequest& request) const {
  const std::string group = group_of(request);
  if (!group.empty() && !options_.groups.contains(group)) {
    return net::error_at(request.path, 404, "not_found",
                         "API group '" + group + "' is not enabled on this server.");
  }
  const bool is_auth = request.path.starts_with("/auth/");
  if (!request.needs_token && is_auth) {
    return net::error_response(404, "Authentication is not enabled on this server.");
  }
  if (is_open(request.path)) return std::nullopt;

  const std::string_view token = net::bearer_token(request.authorization);
  Result<net::TokenClaims> claims = Error::of(ErrorCode::kNoPermission, "Missing bearer token.");
  if (!token.empty() && options_.token_keys) {
    claims = options_.token_keys->verify(token, std::time(nullptr));
  }
  if (claims.ok()) {
    request.peer.token_subject = claims->subject;
    request.peer.scopes = claims->scopes;
  } else if (request.needs_token) {
    return unauthorized(request.path, claims.error().text());
  }
  if (!request.needs_token) return std::nullopt;
  const auto& scopes = request.peer.scopes;
  for (const std::string& needed : scopes_of(request, group)) {
    if (std::find(scopes.begin(), scopes.end(), needed) != scopes.end()) continue;
    return net::error_at(request.path, 403, "no_permission",
                         "Token lacks the required scope '" + needed + "'.");
  }
  return std::nullopt;
}

void AgentApi::handle(net::HttpRequest request, net::Reply reply) {
  ++context_.requests;
  if (auto refused = refuse(request)) return reply(*std::move(refused));
  if (handle_zeusd(context_, request, reply) || handle_native(context_, request, reply)) return;
  if (request.path == "/metrics") return handle_metrics(context_, request, reply);
  reply(net::error_at(request.path, 404, "not_found",
                      "There is nothing at " + request.path.substr(0, 200)));
}

Result<std::vector<int>> readable_gpus(const Controller& controller, const net::Peer& peer,
                                       const std::optional<std::vector<int>>& asked) {
  if (asked) return *asked;
  std::vector<int> readable;
  for (const GpuIdentity& gpu : controller.gpus()) {
    if (controller.policy().allowance(peer, gpu).read) readable.push_back(gpu.index);
  }
  if (readable.empty() && !controller.gpus().empty()) {
    return Error::of(ErrorCode::kNoPermission,
                     "the agent's policy does not allow you to read any GPU");
  }
  return readable;
}

}  // namespace harpe::node
