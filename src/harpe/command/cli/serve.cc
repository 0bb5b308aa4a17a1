#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <thread>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/cli.h"
#include "harpe/command/command/issue_token.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/option_file.h"
#include "harpe/command/command/options.h"
#include "harpe/net/service/server_log.h"
#include "harpe/training/server/api.h"
#include "harpe/training/server/training_server.h"

namespace harpe::command {
namespace {

constexpr const char* kDefaultStore = "sqlite:harpe.db";
constexpr const char* kNoStore = "none";

struct ServeArguments {
  CLI::App* command = nullptr;  ///< the command that reads them
  std::string config;
  training::ServerOptions options;
  std::string socket, certificate, key, store = kDefaultStore;
  std::optional<Seconds> lease;
};

/// Returns shorter times for tests, in the proportions of the usual ones.
training::LeaseTimes lease_of(Seconds lease) {
  const training::LeaseTimes usual;
  const double share = lease / usual.lease;
  return {.lease = lease, .beat = usual.beat * share, .margin = usual.margin * share};
}

Result<Outcome> run(const ServeArguments& arguments, Console& console) {
  HARPE_TRY(take_option_file(*arguments.command, arguments.config));
  training::ServerOptions options = arguments.options;
  if (!arguments.socket.empty()) {
    // Without tokens, the mode of the file alone controls access.
    options.socket = net::UnixSocketOptions{.path = arguments.socket,
                                            .mode = options.signing_key.empty() ? 0600U : 0666U};
  }
  if (arguments.certificate.empty() != arguments.key.empty()) {
    return Error::invalid("--tls-certificate and --tls-key need each other");
  }
  if (!arguments.certificate.empty())
    options.tls = net::TlsFiles{arguments.certificate, arguments.key};
  if (options.tcp == "none") options.tcp.clear();
  if (arguments.store != kNoStore) options.store = arguments.store;
  if (arguments.lease) options.lease = lease_of(*arguments.lease);
  options.version = HARPE_VERSION;
  const Status served = training::run_server(
      options, [&, with_time = !net::stderr_is_journal()](std::string_view name) {
        console.err << net::log_line("harpe serve", "listening on " + std::string(name), with_time)
                    << std::flush;
      });
  if (!served.ok()) return served.error();
  return Outcome{.text = "", .json = json_text({{"stopped", true}})};
}

Result<int> parse_up_to_a_million(std::string_view text) {
  return parse_count(text, 1, 1'000'000);
}

/// Parses a time such as "15min" or "30d".
Result<Seconds> parse_duration(const std::string& text) {
  if (!text.ends_with('d')) return parse_seconds(text);
  const auto days = parse_number(text.substr(0, text.size() - 1));
  if (!days || !(*days >= 0) || *days > 36'500) {
    return Error::invalid("expected a time such as 15min, 8h or 30d, got " + in_quotes(text));
  }
  return Seconds{*days * 86'400};
}

Result<double> parse_rate(const std::string& text) {
  const auto number = parse_number(text);
  if (!number || !(*number >= 0) || !std::isfinite(*number)) {
    return Error::invalid("expected a number from 0 (no limit), got " + in_quotes(text));
  }
  return *number;
}

void add_transport_options(CLI::App& app, const std::shared_ptr<ServeArguments>& arguments) {
  training::ServerOptions& options = arguments->options;
  add_text(app, "--tcp", "ADDRESS:PORT",
           "TCP address, or none (default: 127.0.0.1:7787); needs TLS and tokens beyond this "
           "machine",
           options.tcp);
  add_text(app, "--socket", "PATH",
           "Unix socket to serve, too; only for its owner without --signing-key",
           arguments->socket);
  add_text(app, "--tls-certificate", "FILE", "Certificate chain for TCP (PEM)",
           arguments->certificate);
  add_text(app, "--tls-key", "FILE", "Key of the certificate (PEM, mode 600)", arguments->key);
  add_text(app, "--signing-key,--signing-key-path", "FILE",
           "Keys of tokens, one per line; the first signs (mode 600). Without keys, every client "
           "may do everything",
           options.signing_key);
  add_text(app, "--revoked-tokens", "FILE", "Tokens to refuse before they expire",
           options.revoked_tokens);
  app.add_flag("--insecure", options.insecure,
               "Serve beyond this machine without TLS or tokens, in a trusted network");
}

void add_limit_options(CLI::App& app, const std::shared_ptr<ServeArguments>& arguments) {
  training::ServerOptions& options = arguments->options;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  options.workers = std::max(1, cores - 1);
  add_parsed(app, "--workers", "COUNT",
             "Jobs planned at the same time (default: number of cores less one)", options.workers,
             parse_up_to_a_million);
  add_parsed(
      app, "--search-time", "DURATION",
      "Longest background search for a better plan for a job's objective; 0: no search (default: "
      "10min)",
      options.search_time, parse_duration);
  add_parsed(app, "--requests-per-second", "COUNT",
             "Maximum per user or address; 0: no limit (default: 20000)",
             options.requests_per_second, parse_rate);
  add_parsed(app, "--connections", "COUNT",
             "Maximum connections at once; a rank has two (default: 524288, or as many as open "
             "files allow)",
             options.limits.connections, parse_up_to_a_million);
  add_parsed(app, "--connections-per-user", "COUNT", "Maximum per user or address (default: 65536)",
             options.limits.connections_per_user, parse_up_to_a_million);
}

Result<std::size_t> parse_mebibytes(const std::string& text) {
  const auto number = parse_integer(text);
  if (!number || *number < 64 || *number > 1'000'000) {
    return Error::invalid("expected MiB from 64 to 1000000, got " + in_quotes(text));
  }
  return static_cast<std::size_t>(*number) << 20;
}

void add_job_options(CLI::App& app, const std::shared_ptr<ServeArguments>& arguments) {
  training::ServerOptions& options = arguments->options;
  add_parsed(app, "--idle-after", "DURATION",
             "Time without contact from its ranks after which a job is idle and leaves memory "
             "(default: 15min)",
             options.lifetimes.idle_after, parse_duration);
  add_parsed(app, "--end-after", "DURATION",
             "Time without contact after which a job has ended, even if no rank reported its end "
             "(default: 1d)",
             options.lifetimes.end_after, parse_duration);
  add_parsed(app, "--keep-ended", "DURATION", "Time to keep ended jobs; 0: forever (default: 30d)",
             options.lifetimes.keep_ended, parse_duration);
  add_parsed(
      app, "--most-jobs", "COUNT",
      "Maximum number of jobs; above it, the jobs that ended first are removed (default: 100000)",
      options.most_jobs, parse_up_to_a_million);
  add_parsed(app, "--job-memory", "MIB", "Memory for jobs that train, MiB (default: 4096)",
             options.job_memory, parse_mebibytes);
}

void add_carbon_option(CLI::App& app, const std::shared_ptr<ServeArguments>& arguments) {
  app.add_option("--carbon", arguments->options.carbon,
                 "Source of carbon intensity that jobs may choose, such as electricity-maps:DE, "
                 "uk:13 or file:PATH; repeat for more sources (docs/carbon-sources.md)")
      ->type_name("SOURCE");
}

void add_token_command(Commands& commands, CLI::App& serve) {
  CLI::App& token = commands.add(serve, "token", "tokens for clients",
                                 "harpe serve token issue --signing-key KEY --user trainer \\\n"
                                 "    --scope job-read,job-write --job gpt3 --expires 7d");
  const auto arguments = std::make_shared<TokenRequest>();
  CLI::App& issue = commands.add(
      token, "issue",
      "sign a token\n"
      "Prints a token (JWT, HS256) that lets its holder read jobs (job-read), or register, report "
      "and change them (job-write): all jobs, or one. --json also prints the token's id. To "
      "revoke the token before it expires, add the id to the file of the server's "
      "--revoked-tokens.",
      "openssl rand -hex 32 > key; chmod 600 key\n"
      "harpe serve token issue --signing-key key --user trainer \\\n"
      "    --scope job-read,job-write --job gpt3 --expires 7d",
      [arguments](Console&) {
        return issue_token(*arguments, {training::kJobRead, training::kJobWrite});
      });
  add_text(issue, "--signing-key,--signing-key-path", "FILE",
           "File whose first line is the signing key (mode 600)", arguments->key)
      ->required();
  add_text(issue, "--user", "NAME", "Name of the token's holder", arguments->user)->required();
  add_text(issue, "--scope", "SCOPES", "Scopes: job-read,job-write", arguments->scopes)->required();
  add_text(issue, "--job", "ID", "Job to which the token is limited (default: all)",
           arguments->job);
  add_text(issue, "--expires", "DURATION", "Lifetime: 1h, 7d, never (default: 1h)",
           arguments->expires);
}

}  // namespace

void add_serve_command(Commands& commands) {
  const auto arguments = std::make_shared<ServeArguments>();
  CLI::App& app = commands.add(
      commands.root(), "serve",
      "plan training jobs while they run\n"
      "Runs the server to which training ranks report. It profiles each job during training, "
      "computes its plans, assigns clocks to every rank, responds to stragglers, and continues "
      "after a crash where it stopped. Zeus's pipeline frequency client works with it unchanged. "
      "See docs/server.md.",
      "harpe serve\n"
      "harpe serve --tcp 0.0.0.0:7787 --signing-key key --tls-certificate cert.pem \\\n"
      "    --tls-key key.pem --store postgresql://harpe@db/harpe\n"
      "harpe serve --config /etc/harpe/server.toml\n"
      "curl -s localhost:7787/v1/jobs",
      [arguments](Console& console) { return run(*arguments, console); });
  arguments->command = &app;
  add_config_option(app, arguments->config);
  add_transport_options(app, arguments);
  add_text(app, "--store", "URL",
           "Storage of jobs: sqlite:PATH, postgresql://..., or none (default: sqlite:harpe.db)",
           arguments->store);
  add_text(app, "--peer-url", "URL",
           "URL of this server for other servers on the same PostgreSQL (default: from --tcp)",
           arguments->options.peer_url);
  add_text(app, "--peer-certificates", "FILE",
           "Certificates (PEM) of other servers to trust in addition to the system's",
           arguments->options.peer_certificates);
  add_limit_options(app, arguments);
  add_job_options(app, arguments);
  add_carbon_option(app, arguments);
  // Not in the help: for tests only, and the same on all servers of a database.
  add_parsed(app, "--test-lease", "DURATION", "", arguments->lease, parse_seconds)->group("");
  add_parsed(app, "--test-schedule-patience", "DURATION", "", arguments->options.schedule_patience,
             parse_seconds)
      ->group("");
  add_text(app, "--log", "FILE", "Log (default: standard error); SIGHUP reopens it",
           arguments->options.log);
  add_token_command(commands, app);
}

}  // namespace harpe::command
