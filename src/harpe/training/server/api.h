#pragma once
/// \file
/// What the server answers to HTTP requests: who may ask, and which route it is. docs/openapi.yaml
/// is the contract, docs/server.md tells users how to work with it.

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

/// What the transport tells about itself for /metrics.
struct ServerTransport {
  std::size_t connections = 0;
  std::uint64_t connections_refused = 0;
  std::size_t buffered = 0;  ///< bytes of requests and answers
};

struct ServerApiOptions {
  std::shared_ptr<const net::TokenKeys> token_keys = {};
  double requests_per_second = 0;  ///< of one client; 0: no limit
  std::string version = {};        ///< of Harpe
  std::size_t most_ranks = 0;      ///< that find room with this server; 0: not known
  std::function<ServerTransport()> transport = {};
  CarbonPacer* carbon = nullptr;  ///< null: no job moves with its grid; must outlive the routes
  /// How long ranks of Zeus's clients wait for their schedule while others have not asked.
  Seconds schedule_patience{120};
};

/// What routes work with.
struct ServerContext {
  JobRegistry& registry;
  RecurringJobs& recurring_jobs;
  const ServerApiOptions& options;
  Instant started;
  std::uint64_t requests = 0, rate_limited = 0;
  std::map<int, std::uint64_t> responses;  ///< by status
};

class ZeusRoutes;

/// Limits the requests a second of each client, by a token bucket for each. Not thread-safe. O(1) a
/// request; buckets that have filled up again are forgotten.
class ClientRates {
 public:
  /// \param per_second  requests in the long run, and at once; 0: no limit
  explicit ClientRates(double per_second) : per_second_(per_second) {}

  /// Counts one request. Returns nullopt if it may be served, else how long the client should wait.
  std::optional<Seconds> take(const std::string& client, Instant now);

 private:
  struct Bucket {
    double requests = 0;  ///< that may still be made at once
    Instant filled;
  };
  void forget_full(Instant now);

  double per_second_;
  std::unordered_map<std::string, Bucket> buckets_;
  std::size_t next_sweep_ = 1024;
};

/// Answers requests on the thread of the registry's loop. What waits, such as a schedule, is
/// answered later.
class ServerApi {
 public:
  /// \param owners  null: no other server shares the jobs; must outlive this
  ServerApi(JobRegistry& registry, RecurringJobs& recurring_jobs, ServerApiOptions options,
            JobOwners* owners = nullptr);
  ~ServerApi();

  void handle(net::HttpRequest request, net::Reply reply);
  /// What to answer to a client that may not ask this, before its body is read: only those who show
  /// a token can make the server hold large ones.
  std::optional<net::HttpResponse> refuse_unread(const net::HttpRequest& head);
  /// Once a second.
  void tick();

 private:
  /// What to answer instead to a client that asks too often.
  std::optional<net::HttpResponse> limit_rate(const net::HttpRequest& request);
  /// What to answer instead, if the client may not ask this. \param user  whose token it shows
  std::optional<net::HttpResponse> check_token(const net::HttpRequest& request,
                                               std::optional<std::string>& only_job,
                                               std::string& user) const;
  /// Tells the job, if it is here, that a client was refused for its token.
  void note_refused(const net::HttpRequest& request, const net::HttpResponse& refused);
  /// Brings the job that the request is about into memory first.
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

/// How many bytes the body of a request may have: specifications and profiles are large.
std::optional<std::size_t> body_limit_of(std::string_view method, std::string_view path);

/// docs/openapi.yaml as it was when Harpe was built.
std::string_view openapi_document();

// GET /metrics: the server, and jobs whose training goes on, in Prometheus' text format.

void handle_server_metrics(ServerContext& context, const net::Reply& reply);

}  // namespace harpe::training
