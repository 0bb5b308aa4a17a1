#include "harpe/training/server/training_server.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/net/http/http_forwarder.h"
#include "harpe/net/http/http_responses.h"
#include "harpe/net/http/http_server.h"
#include "harpe/net/http/server_loop.h"
#include "harpe/net/http/server_socket.h"
#include "harpe/net/service/server_log.h"
#include "harpe/net/service/server_notify.h"
#include "harpe/net/service/token_keys.h"
#include "harpe/training/server/api.h"
#include "harpe/training/server/carbon_feeds.h"
#include "harpe/training/server/carbon_pacer.h"
#include "harpe/training/server/job_owners.h"
#include "harpe/training/server/job_registry.h"
#include "harpe/training/server/zeus_routes.h"
#include "harpe/training/store/store.h"
#include "harpe/training/store/store_url.h"

namespace harpe::training {
namespace {

constexpr Seconds kTick{1};
/// A rank uses one connection for its requests and one for its events.
constexpr std::size_t kConnectionsOfARank = 2;
constexpr std::size_t kMostConnections = kConnectionsOfARank * kMaxRanks;
/// File descriptors of the store, the log and listening sockets; of connections to other servers.
constexpr std::size_t kOtherFiles = 64, kFilesOfServers = 448;
constexpr Seconds kLongestPrunePeriod{3600};
constexpr Seconds kLookAround{2};
constexpr Seconds kLookAtLease{0.1};
constexpr Seconds kPeerTimeout{5};
constexpr Seconds kEventsKept{30.0 * 24 * 3600};

/// Sets the maximum number of connections from the limit on open files, and logs it.
void fit_connections(net::HttpLimits& limits, bool shared, net::ServerLog& log) {
  const std::uint64_t files = net::raise_file_limit();
  // If several servers share jobs, each request may be forwarded over another connection.
  const std::size_t others = kOtherFiles + (shared ? kFilesOfServers : 0) + limits.reserve;
  const std::size_t fit = net::connections_within(files, others, shared ? 2 : 1);
  const std::size_t wanted = limits.connections > 0 ? limits.connections : kMostConnections;
  limits.connections = std::min(wanted, fit);
  std::string line = "holds " + std::to_string(limits.connections) + " connections at once, for " +
                     std::to_string(limits.connections / kConnectionsOfARank) +
                     " ranks with two each";
  if (fit < wanted) {
    line += ": more need more open files than the " + std::to_string(files) +
            " that this process may have (ulimit -Hn, LimitNOFILE)";
  }
  log.write(line);
}

void watch_signals(net::ServerLoop& loop, net::ServerLog& log,
                   const std::function<void()>& reload) {
  // A file at its size limit is a store failure, which is reported; the server continues.
  std::signal(SIGXFSZ, SIG_IGN);
  loop.on_signals({SIGTERM, SIGINT, SIGHUP},
                  [&loop, &log, reload, terminal = net::ControllingTerminal()](int signal) {
                    if (signal != SIGHUP || terminal.has_closed()) {
                      log.write("asked to stop");
                      return loop.stop();
                    }
                    const Status reopened = log.reopen();
                    log.write(reopened.ok() ? "log reopened" : reopened.error().text());
                    reload();
                  });
}

// --- Waiting for the database -------------------------------------------------------------------

/// The response does not name the database, because anyone can read it. The log names it.
net::HttpResponse waits(const net::HttpRequest& /*request*/) {
  net::HttpResponse response = net::native_error(
      503, "unavailable", "this server has just started and waits for its database");
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

net::HttpLimits without_bodies(net::HttpLimits limits) {
  limits.refuse_unread = waits;
  return limits;
}

/// A server that responds 503 to every request while the main server waits for its database.
/// Clients then try another server, and probes and users see the reason. Without it their
/// connections would hang, because the sockets already listen. Serves on a thread of its own until
/// it is destroyed, which closes its connections; the sockets continue to listen.
class WaitingServer {
 public:
  /// \param tls  for TCP; nullopt for plain HTTP
  static Result<std::unique_ptr<WaitingServer>> serve(const std::vector<net::OpenSocket>& sockets,
                                                      const std::optional<net::TlsFiles>& tls,
                                                      net::HttpLimits limits, net::ServerLog& log);
  ~WaitingServer();
  WaitingServer(const WaitingServer&) = delete;
  WaitingServer& operator=(const WaitingServer&) = delete;

 private:
  WaitingServer(net::HttpLimits limits, net::ServerLog& log);

  net::ServerLoop loop_;
  net::HttpServer server_;
  std::thread thread_;
};

WaitingServer::WaitingServer(net::HttpLimits limits, net::ServerLog& log)
    : server_(
          loop_,
          [](const net::HttpRequest& request, const net::Reply& reply) { reply(waits(request)); },
          without_bodies(std::move(limits)), [&log](const std::string& line) { log.write(line); }) {
}

Result<std::unique_ptr<WaitingServer>> WaitingServer::serve(
    const std::vector<net::OpenSocket>& sockets, const std::optional<net::TlsFiles>& tls,
    net::HttpLimits limits, net::ServerLog& log) {
  std::unique_ptr<WaitingServer> server(new WaitingServer(std::move(limits), log));
  for (const net::OpenSocket& socket : sockets) {
    UniqueFd listening(::fcntl(socket.fd.get(), F_DUPFD_CLOEXEC, 0));
    HARPE_TRY(
        server->server_.serve(std::move(listening), false, socket.is_tcp && tls ? &*tls : nullptr));
  }
  server->thread_ = std::thread([&loop = server->loop_] { loop.run(); });
  return server;
}

WaitingServer::~WaitingServer() {
  loop_.post([this] {
    server_.close();
    loop_.stop();
  });
  if (thread_.joinable()) thread_.join();
}

constexpr std::chrono::seconds kPauseBetweenTries(1);
constexpr int kTriesBetweenLines = 60;  // tries per line of the log
/// systemd allows 90 s for a start. Each try extends this by a minute.
constexpr const char* kStillStarting =
    "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=waiting for PostgreSQL";

/// A scope in which SIGTERM and SIGINT end the process at once. The first process of a container
/// needs a handler, because the kernel ignores signals that it does not handle. No job has been
/// served yet, so there is nothing to clean up; the next start takes over the file of a socket.
class EndsOnSignals {
 public:
  EndsOnSignals() {
    struct sigaction end{};
    end.sa_handler = [](int) { ::_exit(0); };
    sigaction(SIGTERM, &end, &term_before_);
    sigaction(SIGINT, &end, &int_before_);
  }
  ~EndsOnSignals() {
    sigaction(SIGTERM, &term_before_, nullptr);
    sigaction(SIGINT, &int_before_, nullptr);
  }
  EndsOnSignals(const EndsOnSignals&) = delete;
  EndsOnSignals& operator=(const EndsOnSignals&) = delete;

 private:
  struct sigaction term_before_{}, int_before_{};
};

bool is_worth_waiting(const std::string& store, const Error& error) {
  const Result<StoreUrl> url = StoreUrl::parse(store);
  return url.ok() && url->kind == StoreUrl::Kind::kPostgresql &&
         error.code == ErrorCode::kUnavailable;
}

/// Opens the store. If it is a PostgreSQL database that is unreachable, logs this and tries again
/// every second: a server that gave up would have to be started by hand. It also waits for a
/// database or role that does not exist. SIGTERM and SIGINT end the process at once, with status 0.
/// Must be called before signals are handled. Fails if waiting does not help: a wrong password, a
/// database of a later Harpe.
/// \param when_away  called once, after the first attempt fails
Result<std::unique_ptr<Store>> await_store(const std::string& url, const StoreOptions& options,
                                           net::ServerLog& log,
                                           const std::function<void()>& when_away) {
  const EndsOnSignals ends;
  for (int tries = 0;; ++tries) {
    Result<std::unique_ptr<Store>> store = Store::open(url, options);
    if (store.ok() && tries > 0) log.write("the database is reachable");
    if (store.ok() || !is_worth_waiting(url, store.error())) return store;
    if (tries % kTriesBetweenLines == 0) {
      log.write("waits for its database: " + store.error().text());
    }
    if (tries == 0) when_away();
    net::notify_systemd(kStillStarting);
    std::this_thread::sleep_for(kPauseBetweenTries);
  }
}

/// \param url  of this server, for other servers
Result<std::unique_ptr<Store>> open_store(const ServerOptions& options, const std::string& url,
                                          const std::vector<net::OpenSocket>& sockets,
                                          const net::HttpLimits& limits, net::ServerLog& log) {
  if (options.store.empty()) {
    log.write("no store: all jobs are lost when this server stops");
    return std::unique_ptr<Store>();
  }
  std::unique_ptr<WaitingServer> waiting;
  auto store = await_store(
      options.store, {.name = "harpe serve", .url = url, .lease = options.lease}, log, [&] {
        auto server = WaitingServer::serve(sockets, options.tls, limits, log);
        if (!server.ok())
          return log.write("cannot respond while it waits: " + server.error().text());
        waiting = *std::move(server);
      });
  if (store.ok()) log.write("jobs are kept in " + (*store)->description());
  return store;
}

bool shares_store(const ServerOptions& options) {
  const Result<StoreUrl> url = StoreUrl::parse(options.store);
  return url.ok() && url->kind == StoreUrl::Kind::kPostgresql;
}

/// Returns the URL of a socket for clients and other servers: "https://10.0.0.5:7787".
std::string url_of(const net::OpenSocket& socket, bool tls) {
  return (tls ? "https://" : "http://") + socket.name.substr(0, socket.name.find(' '));
}

/// Returns the URL of this server for other servers; empty if it does not use TCP.
std::string peer_url(const ServerOptions& options, const std::vector<net::OpenSocket>& sockets) {
  if (!options.peer_url.empty()) return options.peer_url;
  const auto tcp = std::ranges::find_if(sockets, &net::OpenSocket::is_tcp);
  if (tcp == sockets.end()) return {};
  return net::reachable_url(url_of(*tcp, options.tls.has_value()));
}

/// Returns the owners of the jobs in a store that other servers share.
Result<std::unique_ptr<JobOwners>> open_owners(const ServerOptions& options, net::ServerLoop& loop,
                                               Hosting& hosting, Store& store,
                                               const std::shared_ptr<net::TokenKeys>& keys,
                                               const std::function<void(const std::string&)>& log) {
  net::HttpForwarder::Options forwarding{.timeout = kPeerTimeout,
                                         .trusted = options.peer_certificates,
                                         .trusted_network = options.insecure,
                                         .may_wait = waits_for_other_ranks};
  if (keys != nullptr) {
    forwarding.token_of = [keys](const net::HttpRequest& request) {
      return net::forward_token(*keys, request.client, std::time(nullptr));
    };
  }
  net::HttpForwarder forwarder = HARPE_TRY(net::HttpForwarder::create(loop, forwarding));
  auto owners = std::make_unique<JobOwners>(
      loop, hosting, store,
      JobOwners::Options{
          .url = hosting.options().url,
          .forward =
              [to_others = std::make_shared<net::HttpForwarder>(std::move(forwarder))](
                  const std::string& url, const net::HttpRequest& request,
                  net::HttpForwarder::Answered answered) {
                to_others->forward(url, request, std::move(answered));
              }},
      log);
  HARPE_TRY(owners->start());
  return owners;
}

}  // namespace

net::HttpLimits ServerOptions::default_limits() {
  net::HttpLimits limits{
      .connections = 0, .connections_per_user = 65'536, .buffered = 256UL * 1024 * 1024};
  // A specification may be large and the network slow; a schedule request may wait for days.
  limits.request = Seconds{60};
  limits.response = Seconds{7.0 * 24 * 3600};
  limits.sizes.body_of = body_limit_of;
  limits.is_vital = [](const net::HttpRequest& head) {
    return head.path == "/health" || head.path == "/metrics";
  };
  limits.full =
      "this server, or one address, has its maximum number of connections (docs/server.md, Limits)";
  return limits;
}

Status check_server_options(const ServerOptions& options) {
  Diagnostics diagnostics;
  if (options.tcp.empty() && !options.socket) {
    diagnostics.add("no address to listen on: give --tcp or --socket");
  }
  if (options.tcp.empty() && options.tls) {
    diagnostics.add("--tls-certificate and --tls-key are for --tcp, which is off");
  }
  if (!options.tcp.empty()) {
    const Result<net::TcpAddress> address = net::parse_tcp_address(options.tcp);
    if (!address.ok()) diagnostics.add(address.error().text());
    const bool is_secure = options.tls && !options.signing_key.empty();
    if (address.ok() && !address->loopback && !is_secure && !options.insecure) {
      diagnostics.add("TCP on " + options.tcp +
                      " lets everybody on the network change jobs: give --signing-key, "
                      "--tls-certificate and --tls-key, or --insecure if the network is trusted");
    }
  }
  if (!options.revoked_tokens.empty() && options.signing_key.empty()) {
    diagnostics.add("--revoked-tokens needs --signing-key");
  }
  if (!options.peer_url.empty() && !options.peer_url.starts_with("http://") &&
      !options.peer_url.starts_with("https://")) {
    diagnostics.add("--peer-url must be http://HOST:PORT or https://HOST:PORT");
  }
  if (options.peer_url.empty() && options.tcp.empty() && shares_store(options)) {
    diagnostics.add(
        "other servers of the PostgreSQL must reach this one: give --tcp, or --peer-url");
  }
  if (options.workers < 1) diagnostics.add("--workers must be at least 1");
  const JobLifetimes& lifetimes = options.lifetimes;
  if (!(lifetimes.idle_after > Seconds{0})) diagnostics.add("--idle-after must be longer than 0");
  if (!(lifetimes.end_after >= lifetimes.idle_after)) {
    diagnostics.add("--end-after must not be shorter than --idle-after");
  }
  if (!(options.requests_per_second >= 0)) {
    diagnostics.add("--requests-per-second must be a number from 0");
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

namespace {

net::HttpLimits limits_of(const ServerOptions& options, const std::shared_ptr<net::TokenKeys>& keys,
                          net::ServerLog& log) {
  net::HttpLimits limits = options.limits;
  fit_connections(limits, shares_store(options), log);
  if (keys != nullptr) {
    limits.origin_of = [keys](const net::HttpRequest& head) {
      return net::forwarded_client(*keys, head.forward_token, std::time(nullptr));
    };
  }
  return limits;
}

/// Takes over the jobs of the store, or shares them with the other servers of the store. Returns
/// null if this server alone uses the store. \param store  null if nothing is stored
Result<std::unique_ptr<JobOwners>> take_jobs(const ServerOptions& options, net::ServerLoop& loop,
                                             Hosting& hosting, Store* store,
                                             const std::shared_ptr<net::TokenKeys>& keys,
                                             net::ServerLog& log) {
  if (shares_store(options)) {
    auto owners = HARPE_TRY(open_owners(options, loop, hosting, *store, keys,
                                        [&log](const std::string& line) { log.write(line); }));
    log.write("other servers of this database find this one at " + hosting.options().url);
    return owners;
  }
  HARPE_TRY(hosting.restore());
  if (hosting.table().count() > 0) {
    log.write("the store has " + std::to_string(hosting.table().count()) + " jobs");
  }
  return std::unique_ptr<JobOwners>();
}

/// Returns the names of the sockets.
Result<std::vector<std::string>> serve_sockets(net::HttpServer& server,
                                               std::vector<net::OpenSocket>& sockets,
                                               const ServerOptions& options, net::ServerLog& log) {
  std::vector<std::string> names;
  for (net::OpenSocket& socket : sockets) {
    names.push_back(socket.is_tcp ? url_of(socket, options.tls.has_value()) : socket.name);
    const net::TlsFiles* tls = socket.is_tcp && options.tls ? &*options.tls : nullptr;
    HARPE_TRY(server.serve(std::move(socket.fd), !options.signing_key.empty(), tls));
  }
  if (options.signing_key.empty() && std::ranges::any_of(sockets, &net::OpenSocket::is_tcp)) {
    log.write(
        "has no --signing-key: every user of this machine, and all others who can connect, may "
        "read, change and delete every job");
  }
  return names;
}

Result<std::unique_ptr<CarbonFeeds>> open_feeds(const ServerOptions& options, net::ServerLoop& loop,
                                                const Hosting& hosting, net::ServerLog& log) {
  auto feeds = HARPE_TRY(CarbonFeeds::open(
      loop, {.sources = options.carbon, .wall = [&hosting] { return hosting.time().wall(); }},
      [&log](const std::string& line) { log.write(line); }));
  for (const OfferedSource& one : feeds->offered()) {
    log.write("offers carbon intensities of " + one.name);
  }
  return feeds;
}

Hosting::Options hosting_options(const ServerOptions& options, const std::string& url) {
  return {.most_jobs = options.most_jobs,
          .most_memory = options.job_memory,
          .lifetimes = options.lifetimes,
          .url = url};
}

/// Returns an error if the job's carbon terms name a source that the server does not offer.
Status offers_carbon_of(const JobSpec& spec, const CarbonFeeds& feeds) {
  if (spec.carbon.empty()) return ok_status();
  const CarbonTerms terms = HARPE_TRY(parse_carbon_terms(spec.carbon));
  Result<std::string> chosen = feeds.choose(terms);
  return chosen.ok() ? ok_status() : Status(std::move(chosen).error());
}

/// \param feeds  must outlive the registry
JobRegistry::Options registry_options(const ServerOptions& options, const CarbonFeeds& feeds) {
  return {.workers = options.workers,
          .search = {.time = options.search_time},
          .check = [&feeds](const JobSpec& spec) { return offers_carbon_of(spec, feeds); },
          .only_profile = options.only_profile};
}

/// Registers the periodic tasks of the server.
void add_duties(const ServerOptions& options, net::ServerLoop& loop, Hosting& hosting,
                ServerApi& api, JobOwners* owners) {
  loop.every(kTick, [&hosting, &api] {
    hosting.tick();
    api.tick();
  });
  if (owners != nullptr) {
    owners->tick();
    loop.every(kLookAround, [owners] { owners->tick(); });
    loop.every(kLookAtLease, [&hosting] { hosting.claims().watch_lease(); });
  }
  // A short retention needs frequent pruning.
  const Seconds kept = options.lifetimes.keep_ended;
  const Seconds prune_period =
      kept > Seconds{0} ? std::clamp(kept / 10, kTick, kLongestPrunePeriod) : kLongestPrunePeriod;
  loop.every(prune_period, [&hosting] { hosting.prune(kEventsKept); });
  hosting.verifier().verify();
  if (const auto period = net::watchdog_period()) {
    loop.every(*period / 2, [] { net::notify_systemd("WATCHDOG=1"); });
  }
}

ServerTransport counts_of(const net::HttpServer& server) {
  return {server.connections(), server.connections_refused(), server.buffered()};
}

}  // namespace

Status run_server(const ServerOptions& options,
                  const std::function<void(std::string_view)>& ready) {
  HARPE_TRY(check_server_options(options));
  net::ServerLog log = HARPE_TRY(net::ServerLog::open("harpe serve", options.log));
  const auto write_log = [&log](const std::string& line) { log.write(line); };
  const std::shared_ptr<net::TokenKeys> keys = HARPE_TRY(
      net::TokenKeys::read({.keys = options.signing_key, .revoked = options.revoked_tokens}));
  net::HttpLimits limits = limits_of(options, keys, log);
  std::vector<net::OpenSocket> sockets =
      HARPE_TRY(net::open_sockets(options.socket, options.tcp, options.tls.has_value()));
  const std::string url = shares_store(options) ? peer_url(options, sockets) : std::string();
  const std::unique_ptr<Store> store = HARPE_TRY(open_store(options, url, sockets, limits, log));

  // Objects that post to the loop are declared after it and destroyed before it. The server, which
  // clients reach, is destroyed first.
  net::ServerLoop loop;
  Hosting hosting(loop, system_clock(), store.get(), hosting_options(options, url), write_log);
  const std::unique_ptr<CarbonFeeds> feeds = HARPE_TRY(open_feeds(options, loop, hosting, log));
  JobRegistry registry(loop, hosting, registry_options(options, *feeds));
  CarbonPacer pacer(registry, *feeds);
  RecurringJobs recurring_jobs(hosting);
  const std::unique_ptr<JobOwners> owners =
      HARPE_TRY(take_jobs(options, loop, hosting, store.get(), keys, log));
  net::HttpServer* transport = nullptr;
  ServerApi api(registry, recurring_jobs,
                {.token_keys = keys,
                 .requests_per_second = options.requests_per_second,
                 .version = options.version,
                 .most_ranks = limits.connections / kConnectionsOfARank,
                 .transport = [&transport] { return counts_of(*transport); },
                 .carbon = &pacer,
                 .schedule_patience = options.schedule_patience},
                owners.get());
  limits.refuse_unread = [&api](const net::HttpRequest& head) { return api.refuse_unread(head); };
  const auto handle = [&](net::HttpRequest asked, net::Reply reply) {
    api.handle(std::move(asked), std::move(reply));
  };
  net::HttpServer server(loop, handle, std::move(limits), write_log);
  transport = &server;
  const std::vector<std::string> names = HARPE_TRY(serve_sockets(server, sockets, options, log));
  const auto reload = [&] { net::reload_secrets(keys.get(), server, log); };
  watch_signals(loop, log, reload);
  loop.every(net::kReloadPeriod, reload);
  add_duties(options, loop, hosting, api, owners.get());
  pacer.start();
  net::notify_systemd("READY=1");
  for (const std::string& name : names) ready(name);
  loop.run();

  net::notify_systemd("STOPPING=1");
  net::remove_socket_files(sockets);
  server.close();
  log.write("stopped");
  return ok_status();
}

}  // namespace harpe::training
