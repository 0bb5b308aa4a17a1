#pragma once
/// \file
/// The server's HTTP API: checks tokens and rates, and dispatches requests to routes. The contract
/// is docs/openapi.yaml; docs/server.md is the guide for users.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "harpe/base/clock.h"
#include "harpe/net/http/http_message.h"
#include "harpe/net/service/token_keys.h"
#include "harpe/training/server/carbon_pacer.h"
#include "harpe/training/server/job_owners.h"
#include "harpe/training/server/job_registry.h"
#include "harpe/training/server/recurring_jobs.h"

namespace harpe::training {

/// Scopes of tokens.
inline constexpr const char* kJobRead = "job-read";
inline constexpr const char* kJobWrite = "job-write";

/// Figures of the transport for /metrics.
struct ServerTransport {
  std::size_t connections = 0;
  std::uint64_t connections_refused = 0;
  std::size_t buffered = 0;  ///< bytes of requests and responses
};

struct ServerApiOptions {
  std::shared_ptr<const net::TokenKeys> token_keys = {};
  double requests_per_second = 0;  ///< limit for each client; 0 for none
  std::string version = {};        ///< of Harpe
  std::size_t most_ranks = 0;      ///< ranks that fit on this server; 0 if unknown
  std::function<ServerTransport()> transport = {};
  CarbonPacer* carbon = nullptr;  ///< null if there is no carbon control; must outlive the routes
  /// How long ranks of Zeus's clients wait for their schedule before all ranks have requested it.
  Seconds schedule_patience{120};
};

/// The objects that routes use.
struct ServerContext {
  JobRegistry& registry;
  RecurringJobs& recurring_jobs;
  const ServerApiOptions& options;
  Instant started;
  std::uint64_t requests = 0, rate_limited = 0;
  std::map<int, std::uint64_t> responses;  ///< by status
};

class ZeusRoutes;

/// A limit on the request rate of each client, by token bucket. Not thread-safe. O(1) per request;
/// full buckets are removed.
class ClientRates {
 public:
  /// \param per_second  rate limit and size of a burst; 0 for no limit
  explicit ClientRates(double per_second) : per_second_(per_second) {}

  /// Counts one request. Returns nullopt if it may be served, else the time the client should wait.
  std::optional<Seconds> take(const std::string& client, Instant now);

 private:
  struct Bucket {
    double requests = 0;  ///< available now
    Instant filled;
  };
  void forget_full(Instant now);

  double per_second_;
  std::unordered_map<std::string, Bucket> buckets_;
  std::size_t next_sweep_ = 1024;
};

/// The handler of requests, on the thread of the registry's loop. Requests that have to wait, such
/// as for a schedule, are answered later.
class ServerApi {
 public:
  /// \param owners  must outlive this; null if no other server shares the jobs
  ServerApi(JobRegistry& registry, RecurringJobs& recurring_jobs, ServerApiOptions options,
            JobOwners* owners = nullptr);
  ~ServerApi();

  void handle(net::HttpRequest request, net::Reply reply);
  /// Returns a response that refuses a client before the body is read, or nullopt: only clients
  /// with a valid token can make the server hold large bodies.
  std::optional<net::HttpResponse> refuse_unread(const net::HttpRequest& head);
  /// Called once a second.
  void tick();

 private:
  /// Returns an error response if the client exceeds its rate.
  std::optional<net::HttpResponse> limit_rate(const net::HttpRequest& request);
  /// Returns an error response if the client lacks permission. \param user  subject of its token
  std::optional<net::HttpResponse> check_token(const net::HttpRequest& request,
                                               std::optional<std::string>& only_job,
                                               std::string& user) const;
  /// Reports a refused token to the job of the request, if the job is in memory.
  void note_refused(const net::HttpRequest& request, const net::HttpResponse& refused);
  /// Handles the request after loading its job into memory.
  void respond(net::HttpRequest request, const net::Reply& reply,
               const std::optional<std::string>& only_job);
  void respond_now(net::HttpRequest& request, const net::Reply& reply,
                   const std::optional<std::string>& only_job);

  ServerApiOptions options_;
  ServerContext context_;
  ClientRates rates_;
  std::unique_ptr<ZeusRoutes> zeus_;
  JobOwners* owners_;
};

/// Returns the maximum size of a request's body in bytes, which is larger for specifications and
/// profiles; nullopt for the default.
std::optional<std::size_t> body_limit_of(std::string_view method, std::string_view path);

/// Returns docs/openapi.yaml as of the build of Harpe.
std::string_view openapi_document();

// GET /metrics: the server and its active jobs, in Prometheus' text format.

void handle_server_metrics(ServerContext& context, const net::Reply& reply);

}  // namespace harpe::training
