#include "harpe/node/agent/server.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <utility>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/net/http/http_server.h"
#include "harpe/net/http/server_socket.h"
#include "harpe/net/service/server_log.h"
#include "harpe/net/service/server_notify.h"
#include "harpe/node/agent/clock_listener.h"
#include "harpe/node/agent/trusted_file.h"

namespace harpe::node {
namespace {

ApiOptions api_options(const AgentOptions& options, const Devices& devices) {
  ApiOptions api{
      .groups = options.groups, .dry_run = options.controller.dry_run, .version = options.version};
  for (const auto& gpu : devices.gpus) api.gpus_with_energy.push_back(gpu->total_energy().ok());
  for (const auto& cpu : devices.cpus) api.cpus_with_dram.push_back(cpu->has_dram());
  return api;
}

void watch_signals(net::ServerLoop& loop, Controller& controller, net::ServerLog& log, bool dry_run,
                   const std::function<void()>& reload) {
  loop.on_signals({SIGTERM, SIGINT, SIGHUP}, [&, dry_run, reload,
                                              terminal = net::ControllingTerminal()](int signal) {
    if (signal != SIGHUP || terminal.has_closed()) {
      log.write(dry_run ? "stopping: would restore all settings (dry run: nothing was changed)"
                        : "stopping: restoring all settings");
      return loop.stop();
    }
    const Status own = log.reopen();
    const Status audit = controller.reopen_audit_log();
    for (const Status& reopened : {own, audit}) {
      log.write(reopened.ok() ? "log reopened" : reopened.error().text());
    }
    reload();
  });
}

}  // namespace

Status check_agent_options(const AgentOptions& options) {
  Diagnostics diagnostics;
  for (const std::string& group : options.groups) {
    if (group == kGpuControl || group == kGpuRead || group == kCpuRead) continue;
    diagnostics.add("unknown API group " + in_quotes(group) +
                    "; expected gpu-control, gpu-read or cpu-read");
  }
  if (options.groups.empty()) diagnostics.add("at least one API group must be enabled");
  if (!options.tcp.empty()) {
    const Result<net::TcpAddress> address = net::parse_tcp_address(options.tcp);
    if (!address.ok()) diagnostics.add(address.error().text());
    if (options.signing_key.empty()) {
      diagnostics.add(
          "over TCP a client is identified only by its token: give the key of the tokens with "
          "--signing-key");
    }
    if (address.ok() && !address->loopback && !options.tls) {
      diagnostics.add("TCP on " + options.tcp +
                      " would send tokens unencrypted over the network: give --tls-certificate and "
                      "--tls-key");
    }
  } else if (options.tls) {
    diagnostics.add("--tls-certificate and --tls-key need --tcp");
  }
  if (!options.revoked_tokens.empty() && options.signing_key.empty()) {
    diagnostics.add("--revoked-tokens needs --signing-key");
  }
  if (options.tokens_everywhere && options.signing_key.empty()) {
    diagnostics.add("--tokens-everywhere needs --signing-key");
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

namespace {

/// Opens the log: a device, such as /dev/null, or a file that other users cannot have created.
Result<net::ServerLog> open_log(const std::filesystem::path& path) {
  std::error_code error;
  if (!path.empty() && !std::filesystem::is_character_file(path, error)) {
    HARPE_TRY(open_trusted(path, O_WRONLY | O_APPEND | O_CREAT, 0640));
  }
  return net::ServerLog::open("harpe agent", path);
}

/// Raises the limit of open files as far as allowed, for root to the limit of the agent's unit.
/// Returns the new limit.
std::uint64_t raise_files() {
  constexpr rlim_t kWanted = 65536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < kWanted) {
    limit.rlim_max = kWanted;
    ::setrlimit(RLIMIT_NOFILE, &limit);  // succeeds only for root
  }
  return net::raise_file_limit();
}

}  // namespace

std::size_t files_beside_connections(std::size_t gpus) {
  constexpr std::size_t kOwn = 64;      // logs, libraries, loops, sockets that listen
  constexpr std::size_t kEachGpu = 16;  // its driver, its lock, a process for each of its leases
  return kOwn + kEachGpu * gpus + ClockListener::kMostConnections;
}

net::HttpLimits fit_to_files(net::HttpLimits limits, std::uint64_t files, std::size_t gpus) {
  limits.reserve = std::min<std::size_t>(limits.reserve, files / 8);
  limits.connections =
      std::min(limits.connections,
               net::connections_within(files, files_beside_connections(gpus) + limits.reserve, 1));
  limits.connections_per_user =
      std::min(limits.connections_per_user, std::max<std::size_t>(limits.connections * 3 / 4, 1));
  return limits;
}

namespace {

/// Opens the sockets after checks of their directory and of who may connect.
Result<std::vector<net::OpenSocket>> open_checked_sockets(const AgentOptions& options) {
  if (const auto directory = options.socket.path.parent_path();
      !directory.empty() && std::filesystem::exists(directory)) {
    HARPE_TRY(check_trusted_directory(directory));
  }
  std::vector<net::OpenSocket> sockets =
      HARPE_TRY(net::open_sockets(options.socket, options.tcp, options.tls.has_value()));
  for (const net::OpenSocket& socket : sockets) {
    if (!socket.is_tcp || !options.signing_key.empty()) continue;
    return Error::invalid("systemd opened a TCP socket, but there is no --signing-key");
  }
  return sockets;
}

/// \returns  the names of the sockets
Result<std::vector<std::string>> serve_sockets(net::HttpServer& server,
                                               std::vector<net::OpenSocket>& sockets,
                                               const AgentOptions& options) {
  std::vector<std::string> names;
  for (net::OpenSocket& socket : sockets) {
    names.push_back(socket.name);
    const net::TlsFiles* tls = socket.is_tcp && options.tls ? &*options.tls : nullptr;
    const bool needs_token = socket.is_tcp || options.tokens_everywhere;
    if (Status serving = server.serve(std::move(socket.fd), needs_token, tls); !serving.ok()) {
      net::remove_socket_files(sockets);
      return std::move(serving).error();
    }
  }
  return names;
}

/// Limits the number of connections to what open files allow.
void fit_limits(AgentOptions& options, std::size_t gpus,
                const std::function<void(const std::string&)>& write_log) {
  const std::uint64_t files = raise_files();
  const std::size_t wanted = options.limits.connections;
  options.limits = fit_to_files(options.limits, files, gpus);
  if (options.limits.connections >= wanted) return;
  write_log("accepts at most " + std::to_string(options.limits.connections) +
            " connections at once: more need more open files than the " + std::to_string(files) +
            " that this process may have (ulimit -Hn, LimitNOFILE)");
}

}  // namespace

Status run_agent(Devices devices, Result<Policy> policy, AgentOptions options,
                 const std::function<void(std::string_view)>& ready) {
  HARPE_TRY(check_agent_options(options));
  ::signal(SIGXFSZ, SIG_IGN);  // a write beyond the file size limit returns an error
  const Result<std::shared_ptr<net::TokenKeys>> keys =
      net::TokenKeys::read({.keys = options.signing_key, .revoked = options.revoked_tokens});
  Result<net::ServerLog> log = open_log(options.log);
  Result<net::ServerLog> otherwise = net::ServerLog::open("harpe agent", {});
  const auto write_log = [&used = log.ok() ? *log : *otherwise](const std::string& line) {
    used.write(line);
  };
  fit_limits(options, devices.gpus.size(), write_log);
  ApiOptions api = api_options(options, devices);
  // In this order, so that no object outlives the objects that it uses: see AgentApi.
  net::ServerLoop loop;
  options.controller.on_event = write_log;
  std::unique_ptr<Controller> controller = HARPE_TRY(Controller::start(
      std::move(devices), policy.ok() ? *policy : Policy(), options.controller, system_clock()));
  // Settings that a crashed agent left are restored: from here on the start may fail.
  if (!policy.ok()) return std::move(policy).error();
  if (!log.ok()) return std::move(log).error();
  api.token_keys = HARPE_TRY(keys);
  std::vector<net::OpenSocket> sockets = HARPE_TRY(open_checked_sockets(options));
  net::HttpServer* transport = nullptr;
  api.transport = [&transport] {
    return TransportCounts{transport->connections(), transport->connections_refused(),
                           transport->buffered()};
  };
  AgentApi agent(*controller, loop, system_clock(), std::move(api));
  net::HttpServer server(
      loop,
      [&agent](net::HttpRequest request, net::Reply reply) {
        agent.handle(std::move(request), std::move(reply));
      },
      options.limits, write_log);
  transport = &server;
  const std::vector<std::string> names = HARPE_TRY(serve_sockets(server, sockets, options));
  const auto reload = [&] { net::reload_secrets(keys->get(), server, *log); };
  watch_signals(loop, *controller, *log, options.controller.dry_run, reload);
  loop.every(net::kReloadPeriod, reload);
  if (const auto period = net::watchdog_period()) {
    loop.every(*period / 2, [] { net::notify_systemd("WATCHDOG=1"); });
  }
  net::notify_systemd("READY=1");
  for (const std::string& name : names) ready(name);
  loop.run();

  net::notify_systemd("STOPPING=1");
  net::remove_socket_files(sockets);
  server.close();
  agent.close();
  controller.reset();
  log->write("stopped");
  return ok_status();
}

}  // namespace harpe::node
