#pragma once
/// \file
/// The server of training jobs as a process: sockets, signals, systemd, the store and the jobs
/// behind them.

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
  std::string tcp = "127.0.0.1:7787";            ///< "ADDRESS:PORT"; empty: no TCP
  std::optional<net::UnixSocketOptions> socket;  ///< none: no Unix socket
  std::optional<net::TlsFiles> tls;              ///< of TCP
  std::filesystem::path signing_key;             ///< of tokens; empty: everybody may do everything
  std::filesystem::path revoked_tokens;          ///< see net/service/token_keys.h; empty: none are
  /// TCP beyond this machine without TLS or tokens is an error unless this is wanted.
  bool insecure = false;
  std::string store;  ///< URL (store_url.h); empty: nothing survives
  /// Where other servers of the same PostgreSQL reach this one: "https://HOST:PORT". Empty: what
  /// `tcp` says, with the machine's name for an address that means all.
  std::string peer_url;
  std::filesystem::path peer_certificates;  ///< PEM, to trust beside the system's; empty: none
  int workers = 1;                          ///< characterizations at once
  Seconds search_time{600};                 ///< for better plans, see `SearchLimits`
  /// See `JobRegistry::Options`: for servers that measure a profile and make no plans.
  std::optional<ProfilingOptions> only_profile = {};
  /// Sources of carbon intensity that jobs may choose from (carbon_source/source_specification.h).
  std::vector<std::string> carbon = {};
  JobLifetimes lifetimes = {};
  std::size_t most_jobs = 100'000;                ///< in memory or stored
  std::size_t job_memory = std::size_t{4} << 30;  ///< bytes of jobs in memory
  double requests_per_second = 20'000;            ///< of one client; 0: no limit
  net::HttpLimits limits = default_limits();      ///< connections 0: as many as open files allow
  /// For tests: leases shorter than the usual ones, and patience with Zeus's ranks.
  LeaseTimes lease = {};
  Seconds schedule_patience{120};
  std::filesystem::path log;  ///< empty: standard error
  std::string version;

  static net::HttpLimits default_limits();
};

Status check_server_options(const ServerOptions& options);

/// Serves until SIGTERM or SIGINT, then stores what is not stored yet. SIGHUP opens the log anew,
/// or ends the server too if it is the terminal that has closed.
/// \param ready  called for each socket, when all listen, with its address and how it is spoken to
Status run_server(const ServerOptions& options, const std::function<void(std::string_view)>& ready);

}  // namespace harpe::training
