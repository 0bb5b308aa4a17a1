#pragma once
/// \file
/// The process of the training server: sockets, signals, systemd, the store and the jobs.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/net/http/http_server.h"
#include "harpe/net/http/server_socket.h"
#include "harpe/training/server/hosted_table.h"
#include "harpe/training/store/server_lease.h"
#include "harpe/training/wire/job_spec.h"

namespace harpe::training {

struct ServerOptions {
  std::string tcp = "127.0.0.1:7787";            ///< "ADDRESS:PORT"; empty for no TCP
  std::optional<net::UnixSocketOptions> socket;  ///< nullopt for no Unix socket
  std::optional<net::TlsFiles> tls;              ///< for TCP
  std::filesystem::path signing_key;     ///< for tokens; empty to permit everything to everybody
  std::filesystem::path revoked_tokens;  ///< see net/service/token_keys.h; empty for none
  /// TCP beyond this machine without TLS or tokens is an error unless this is set.
  bool insecure = false;
  std::string store;  ///< URL (store_url.h); empty to store nothing
  /// URL at which other servers of the same PostgreSQL reach this one: "https://HOST:PORT". If
  /// empty, it is made from `tcp`, with the machine's name in place of a wildcard address.
  std::string peer_url;
  std::filesystem::path peer_certificates;  ///< PEM, trusted beside the system's; empty for none
  int workers = 1;                          ///< concurrent characterizations
  Seconds search_time{600};                 ///< search time for better plans, see `SearchLimits`
  /// See `JobRegistry::Options`: for servers that measure a profile and make no plans.
  std::optional<ProfilingOptions> only_profile = {};
  /// Sources of carbon intensity that jobs may choose from (carbon_source/source_specification.h).
  std::vector<std::string> carbon = {};
  JobLifetimes lifetimes = {};
  std::size_t most_jobs = 100'000;                ///< in memory or stored
  std::size_t job_memory = std::size_t{4} << 30;  ///< bytes of jobs in memory
  double requests_per_second = 20'000;            ///< of one client; 0 for no limit
  net::HttpLimits limits = default_limits();      ///< 0 connections: as many as open files allow
  /// For tests: shorter leases, and how long Zeus's ranks wait.
  LeaseTimes lease = {};
  Seconds schedule_patience{120};
  std::filesystem::path log;  ///< empty for standard error
  std::string version;

  static net::HttpLimits default_limits();
};

Status check_server_options(const ServerOptions& options);

/// Serves until SIGTERM or SIGINT, then writes all unsaved changes. SIGHUP reopens the log, or ends
/// the server if its terminal was closed.
/// \param ready  called for each socket, after all sockets listen, with its address and protocol
Status run_server(const ServerOptions& options, const std::function<void(std::string_view)>& ready);

}  // namespace harpe::training
