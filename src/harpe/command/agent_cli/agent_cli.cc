#include "harpe/command/agent_cli/agent_cli.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "harpe/base/quantity_text.h"
#include "harpe/base/result.h"
#include "harpe/base/text.h"
#include "harpe/command/command/agent_command.h"
#include "harpe/command/command/issue_token.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/option_file.h"
#include "harpe/device/hw/devices.h"
#include "harpe/net/http/server_socket.h"
#include "harpe/net/service/server_log.h"
#include "harpe/node/agent/http_api.h"
#include "harpe/node/agent/policy.h"
#include "harpe/node/agent/server.h"
#include "harpe/node/agent/trusted_file.h"

namespace harpe::command {
namespace {

/// A file of options, and the position of each value in it, for errors.
struct OptionFile {
  std::string name;
  OptionPositions positions;
};

struct AgentSetup {
  node::AgentOptions options;
  std::string policy, simulation;
  bool socket_named = false;  ///< true if the user set the socket
};

constexpr const char* kDefaultPolicy = "/etc/harpe/agent.toml";

std::optional<std::uint32_t> parse_octal(std::string_view text) {
  std::uint32_t value = 0;
  if (text.empty() || text.size() > 5) return std::nullopt;
  for (const char c : text) {
    if (c < '0' || c > '7') return std::nullopt;
    value = value * 8 + static_cast<std::uint32_t>(c - '0');
  }
  return value <= 0777 ? std::optional(value) : std::nullopt;
}

std::optional<std::uint32_t> parse_id(std::string_view text) {
  const auto id = parse_integer(text);
  if (!id || *id < 0 || *id > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(*id);
}

std::optional<std::uint32_t> user_id(const std::string& name) {
  if (const auto id = parse_id(name)) return id;
  const passwd* user = ::getpwnam(name.c_str());
  return user != nullptr ? std::optional<std::uint32_t>(user->pw_uid) : std::nullopt;
}

std::optional<std::uint32_t> group_id(const std::string& name) {
  if (const auto id = parse_id(name)) return id;
  const group* found = ::getgrnam(name.c_str());
  return found != nullptr ? std::optional<std::uint32_t>(found->gr_gid) : std::nullopt;
}

/// Reader of option values that collects their errors.
class Reader {
 public:
  Reader(const AgentOptionValues& values, const OptionFile& file)
      : values_(values), file_(file), in_file_(file.name) {}

  std::string text(const std::string& name, const std::string& otherwise = {}) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
  }
  bool flag(const std::string& name) {
    const std::string value = text(name, "false");
    if (value != "true" && value != "false") error(name, "expected true or false");
    return value == "true";
  }
  /// \param parse  converts text to std::optional
  template <class T, class Parse>
  T value(const std::string& name, T otherwise, Parse parse, const char* expected) {
    const auto found = values_.find(name);
    if (found == values_.end()) return otherwise;
    const auto parsed = parse(found->second);
    if (parsed) return T(*parsed);  // NOLINT(bugprone-optional-value-conversion)
    error(name, "expected " + std::string(expected) + ", got " + in_quotes(found->second));
    return otherwise;
  }
  void error(const std::string& name, const std::string& message) {
    if (const auto place = file_.positions.find(name); place != file_.positions.end()) {
      in_file_.add(place->second.line, place->second.column, name + ": " + message);
    } else {
      elsewhere_.add("--" + name + ": " + message);
    }
  }
  /// Adds an error that belongs to no single option.
  void error(std::string message) { elsewhere_.add(std::move(message)); }
  Status status() && {
    Error error{ErrorCode::kInvalidInput, in_file_.take()};
    for (Diagnostic& diagnostic : elsewhere_.take())
      error.diagnostics.push_back(std::move(diagnostic));
    return error.diagnostics.empty() ? ok_status() : Status(std::move(error));
  }

 private:
  const AgentOptionValues& values_;
  const OptionFile& file_;
  Diagnostics in_file_, elsewhere_;
};

std::optional<std::size_t> parse_limit(std::string_view text) {
  const auto number = parse_integer(text);
  if (!number || *number < 1 || *number > 1'000'000) return std::nullopt;
  return static_cast<std::size_t>(*number);
}

std::set<std::string> split(std::string_view text) {
  std::set<std::string> parts;
  for (std::string& part : split_list(text)) {
    if (!part.empty()) parts.insert(std::move(part));
  }
  return parts;
}

/// Parses text such as "0-3,8".
std::optional<std::vector<int>> parse_cpus(std::string_view text) {
  constexpr std::int64_t kMost = 1024;  // size of the kernel's CPU sets
  std::vector<int> cpus;
  for (const std::string& part : split(text)) {
    const std::size_t dash = std::min(part.find('-'), part.size());
    const auto first = parse_integer(part.substr(0, dash));
    const auto last = dash == part.size() ? first : parse_integer(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kMost) return std::nullopt;
    for (std::int64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus.empty() ? std::nullopt : std::optional(cpus);
}

void read_transport(Reader& read, node::AgentOptions& options) {
  options.socket.path = read.text("socket", "/run/harpe/agent.sock");
  options.socket.who = "agent";
  options.socket.mode = read.value("socket-mode", 0666U, parse_octal, "an octal mode such as 660");
  using Id = std::optional<std::uint32_t>;
  options.socket.uid = read.value("socket-owner", Id(), user_id, "a user");
  options.socket.gid = read.value("socket-group", Id(), group_id, "a group");
  options.tcp = read.text("tcp");
  options.signing_key = read.text("signing-key");
  options.revoked_tokens = read.text("revoked-tokens");
  options.tokens_everywhere = read.flag("tokens-everywhere");
  const std::string certificate = read.text("tls-certificate");
  const std::string key = read.text("tls-key");
  if (certificate.empty() != key.empty()) {
    read.error(certificate.empty() ? "tls-certificate" : "tls-key", "is missing");
  }
  if (!certificate.empty()) options.tls = net::TlsFiles{certificate, key};
  if (const std::string groups = read.text("enable"); !groups.empty()) {
    options.groups = split(groups);
  }
  options.limits.connections = read.value("connections", options.limits.connections, parse_limit,
                                          "a number from 1 to 1000000");
  options.limits.connections_per_user =
      read.value("connections-per-user", options.limits.connections_per_user, parse_limit,
                 "a number from 1 to 1000000");
  options.log = read.text("log");
}

void read_controller(Reader& read, node::AgentOptions& options) {
  // The files of an agent are beside its socket, so that two agents can run side by side.
  const std::filesystem::path run = options.socket.path.parent_path();
  const bool usual = run == "/run/harpe";
  node::ControllerOptions& controller = options.controller;
  controller.state_file = read.text("state-file", run / "agent-state.json");
  controller.audit_log = read.text(
      "audit-log", usual ? "/var/log/harpe/agent-audit.jsonl" : run / "agent-audit.jsonl");
  controller.clock_socket = read.text("clock-socket", run / "clock.sock");
  controller.clock_socket_mode = options.socket.mode;
  controller.dry_run = read.flag("dry-run");
  const auto seconds = [](const std::string& text) -> std::optional<Seconds> {
    const Result<Seconds> parsed = parse_seconds(text);
    return parsed.ok() ? std::optional(*parsed) : std::nullopt;
  };
  controller.owner_cpus =
      read.value("owner-cpus", controller.owner_cpus, parse_cpus, "CPUs such as 0-3,8");
  controller.minimum_dwell =
      read.value("minimum-dwell", controller.minimum_dwell, seconds, "a time such as 20ms");
}

/// Reads the values, with defaults for values not given. Reports all errors at once.
Result<AgentSetup> agent_setup(const AgentOptionValues& values, const OptionFile& file) {
  Reader read(values, file);
  AgentSetup setup;
  setup.policy = read.text("policy", kDefaultPolicy);
  setup.simulation = read.text("simulate");
  setup.socket_named = values.contains("socket");
  read_transport(read, setup.options);
  read_controller(read, setup.options);
  if (const Status right = node::check_agent_options(setup.options); !right.ok()) {
    for (const Diagnostic& diagnostic : right.error().diagnostics) read.error(diagnostic.message);
  }
  HARPE_TRY(std::move(read).status());
  return setup;
}

Result<AgentSetup> read_setup(const AgentArguments& arguments) {
  OptionFile file{.name = arguments.config, .positions = {}};
  if (!file.name.empty()) {
    const std::string text = HARPE_TRY(node::read_trusted(file.name, 1U << 20));
    file.positions = HARPE_TRY(take_options(*arguments.command, text, file.name));
  }
  return agent_setup(arguments.values, file);
}

Result<node::Policy> read_policy(const std::string& path) {
  Result<node::Policy> policy = node::Policy::read(path);
  if (policy.ok() || policy.error().code != ErrorCode::kIo) return policy;
  Error error = policy.error();
  error.diagnostics.push_back(
      {.message = "the agent does only what a policy allows: write one (harpe agent --help; Harpe "
                  "includes an example, agent.toml) and give it with --policy"});
  return error;
}

Result<Outcome> run(const AgentArguments& arguments, Console& console) {
  AgentSetup setup = HARPE_TRY(read_setup(arguments));
  DeviceOptions device_options = DeviceOptions::of_environment();
  if (!setup.simulation.empty()) device_options.simulation = setup.simulation;
  if (!device_options.simulation.empty() && !setup.socket_named) {
    return Error::invalid(
        "an agent on simulated GPUs (--simulate, HARPE_SIMULATION) needs its own --socket, such as "
        "--socket ./agent.sock: the default socket is for the node's real GPUs");
  }
  Devices devices = HARPE_TRY(open_devices(device_options));
  const auto say = [&, with_time = !net::stderr_is_journal()](const std::string& line) {
    console.err << net::log_line("harpe agent", line, with_time) << std::flush;
  };
  for (const BackendState& backend : devices.backends) {
    say(backend.name + ": " + backend.detail);
  }
  if (device_options.simulation.empty() && ::geteuid() != 0) {
    say("not running as root: drivers will most likely refuse to set anything; reading works");
  }
  for (const auto& file :
       {setup.options.controller.audit_log, setup.options.controller.state_file}) {
    if (!file.has_parent_path()) continue;
    HARPE_TRY(net::usable_directory(file.parent_path()));
  }
  setup.options.version = HARPE_VERSION;
  const std::string how = setup.options.controller.dry_run ? " (dry run: nothing is set)" : "";
  const Status served = node::run_agent(
      std::move(devices), read_policy(setup.policy), setup.options,
      [&](std::string_view name) { say("listening on " + std::string(name) + how); });
  if (!served.ok()) return served.error();
  return Outcome{.text = "", .json = json_text({{"stopped", true}})};
}

}  // namespace

std::unique_ptr<Commands> agent_commands() {
  const auto arguments = std::make_shared<AgentArguments>();
  auto commands = std::make_unique<Commands>(
      "harpe-agent", agent_description(), agent_examples("harpe-agent"),
      [arguments](Console& console) { return run(*arguments, console); });
  add_agent_options(*commands, commands->root(), arguments, [arguments](Console&) {
    return issue_token(arguments->token, {node::kGpuControl, node::kGpuRead, node::kCpuRead});
  });
  return commands;
}

}  // namespace harpe::command
