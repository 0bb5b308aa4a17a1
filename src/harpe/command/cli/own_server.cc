#include "harpe/command/cli/own_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "harpe/base/file.h"
#include "harpe/base/unique_fd.h"
#include "harpe/command/cli/find_program.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/net/http/server_socket.h"
#include "harpe/net/service/token.h"
#include "harpe/training/server/api.h"
#include "harpe/training/server/training_server.h"

namespace harpe::command {
namespace {

constexpr Seconds kTimeToEnd{10};
constexpr std::size_t kLastBytes = 2000;
constexpr std::string_view kError = "error: ";  // prefix of a program's own errors

/// Detaches the new process from its parent's signals, terminal and streams.
void settle(pid_t parent, int log) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  struct sigaction usual{};
  usual.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &usual, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int input = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(input, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
}

constexpr const char* kAgentsSocket = "/run/harpe/clock.sock";
constexpr Seconds kAgentStart{30};
constexpr int kSoonRefused = 200;  // ms
/// Leaves room for the socket names below in the 107 bytes of a socket's path.
constexpr std::size_t kLongestFolder = 72;
constexpr const char* kPolicy =
    "# In a folder that its user alone can enter.\n"
    "[[allow]]\nusers = [\"*\"]\ngpus = [\"*\"]\nread = true\nclocks_mhz = [1, 100000]\n";

/// Returns an environment variable; empty if it is not set.
std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before threads
  return value == nullptr ? std::string() : value;
}

void set(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): before threads
}

/// Returns a connection to an agent's clock socket; empty if no agent listens.
UniqueFd connection(const std::filesystem::path& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& name = socket.native();
  if (name.size() >= sizeof address.sun_path) return {};
  std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
  UniqueFd probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return {};
  return probe;
}

bool listens(const std::filesystem::path& socket) {
  return static_cast<bool>(connection(socket));
}

/// Returns true if an agent listens. Fails if it refuses this user at once (clock_channel.h).
Result<bool> serves_clocks(const std::filesystem::path& socket) {
  const UniqueFd probe = connection(socket);
  if (!probe) return false;
  pollfd heard{.fd = probe.get(), .events = POLLIN, .revents = 0};
  if (::poll(&heard, 1, kSoonRefused) <= 0) return true;
  std::array<char, 512> said{};
  const ssize_t size = ::recv(probe.get(), said.data(), said.size(), 0);
  const std::string_view text(said.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  if (!text.starts_with("error ")) return true;
  Error error = Error::of(ErrorCode::kNoPermission, "the agent at " + socket.string() +
                                                        " refuses: " + std::string(text.substr(6)));
  error.diagnostics.push_back(
      {.message = "a line such as clocks_mhz = [210, 1410] in its policy, /etc/harpe/agent.toml, "
                  "lets this user set clocks (docs/agent.md)"});
  return error;
}

Error no_agent() {
  Error error =
      Error::of(ErrorCode::kUnavailable, std::string("no agent listens on ") + kAgentsSocket +
                                             "; without an agent, no clock can be set");
  error.diagnostics.push_back(
      {.message =
           "start it as root: sudo harpe agent (docs/agent.md); or run this command as root"});
  error.diagnostics.push_back(
      {.message = "to measure at the present clock of the GPUs, without setting a clock: --as-is"});
  error.diagnostics.push_back(
      {.message = "for training on other nodes, with their agents: --tcp ADDRESS:PORT"});
  error.diagnostics.push_back({.message = "on a machine without a GPU: --simulate FILE"});
  return error;
}

}  // namespace

Result<HelperProcess> HelperProcess::start(std::filesystem::path log,
                                           const std::function<int()>& body) {
  const int file = ::open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) {
    return Error::io(log.string(), "cannot be created: " +
                                       std::error_code(errno, std::generic_category()).message());
  }
  const pid_t parent = ::getpid();
  const pid_t id = ::fork();
  if (id == 0) {
    settle(parent, file);
    ::_exit(body());
  }
  const int error = errno;
  ::close(file);
  if (id < 0) {
    return Error::of(
        ErrorCode::kUnavailable,
        "cannot start a process: " + std::error_code(error, std::generic_category()).message());
  }
  return HelperProcess(id, std::move(log));
}

HelperProcess::~HelperProcess() {
  if (id_ < 0) return;
  ::kill(id_, SIGTERM);
  if (holds_within(kTimeToEnd, [this] { return !runs(); })) return;
  ::kill(id_, SIGKILL);
  ::waitpid(id_, nullptr, 0);
}

bool HelperProcess::runs() {
  if (id_ >= 0 && ::waitpid(id_, nullptr, WNOHANG) != 0) id_ = -1;
  return id_ >= 0;
}

std::string HelperProcess::last_lines() const {
  Result<std::string> text = read_file(log_);
  if (!text.ok()) return {};
  while (text->ends_with('\n')) text->pop_back();
  if (text->starts_with(kError)) text->erase(0, kError.size());
  return text->size() <= kLastBytes ? *text : text->substr(text->size() - kLastBytes);
}

bool holds_within(Seconds longest, const std::function<bool()>& holds) {
  const Instant end = system_clock().now() + longest;
  while (!holds()) {
    if (system_clock().now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

Result<std::unique_ptr<OwnServer>> OwnServer::start(const OwnServerOptions& options) {
  std::unique_ptr<OwnServer> own(
      new OwnServer(HARPE_TRY(TemporaryFolder::make("server", kLongestFolder))));
  own->sets_clocks_ = !options.profiling.as_is;
  if (options.tcp.empty() && own->sets_clocks_) HARPE_TRY(own->start_agent());
  HARPE_TRY(own->start_server(options));
  return own;
}

OwnServer::~OwnServer() {
  server_.reset();
  agent_.reset();  // restores the clocks that are still set
}

Status OwnServer::start_server(const OwnServerOptions& options) {
  const std::string secret = HARPE_TRY(net::new_token_id()) + HARPE_TRY(net::new_token_id());
  HARPE_TRY(write_file(folder_.path() / "key", secret + "\n"));
  std::filesystem::permissions(folder_.path() / "key", std::filesystem::perms::owner_read);
  const net::SigningKey key = HARPE_TRY(net::SigningKey::of(secret));
  const Result<net::TcpAddress> listens_at = net::parse_tcp_address(options.tcp);
  beyond_this_machine_ = listens_at.ok() && !listens_at->loopback;
  token_ = key.sign({.subject = "training", .scopes = {training::kJobRead, training::kJobWrite}});

  std::array<int, 2> ready{};
  if (::pipe2(ready.data(), O_CLOEXEC) != 0) {
    return Error::of(
        ErrorCode::kUnavailable,
        "cannot create a pipe: " + std::error_code(errno, std::generic_category()).message());
  }
  const UniqueFd from(ready[0]);
  UniqueFd to(ready[1]);
  server_.emplace(HARPE_TRY(HelperProcess::start(folder_.path() / "server.log", [&] {
    training::ServerOptions serve;
    serve.tcp = options.tcp.empty() ? "127.0.0.1:0" : options.tcp;
    serve.signing_key = folder_.path() / "key";
    serve.insecure = true;
    serve.only_profile = options.profiling;
    serve.version = HARPE_VERSION;
    const Status served = training::run_server(serve, [&](std::string_view name) {
      (void)!::write(to.get(), name.data(), name.size());
      to.reset();
    });
    if (!served.ok()) std::cerr << served.error().text() << std::endl;
    return served.ok() ? 0 : 1;
  })));
  to.reset();
  // Reads to the end of the pipe: the server has sent its address, or has ended.
  std::array<char, 256> address{};
  std::size_t size = 0;
  for (;;) {
    const ssize_t got = ::read(from.get(), &address[size], address.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size == 0) {
    return Error::of(ErrorCode::kUnavailable,
                     "the server of this command did not start: " + server_->last_lines());
  }
  url_ = net::reachable_url(std::string(address.data(), size));
  return ok_status();
}

Status OwnServer::start_agent() {
  const std::string given = variable("HARPE_CLOCK_SOCKET");
  if (!given.empty() && HARPE_TRY(serves_clocks(given))) return ok_status();
  const bool simulated = !variable("HARPE_SIMULATION").empty();
  // The node's agent controls the node's GPUs.
  if (given.empty() && !simulated && HARPE_TRY(serves_clocks(kAgentsSocket))) return ok_status();
  if (!given.empty()) {
    return Error::of(ErrorCode::kUnavailable,
                     "no agent listens on " + given +
                         ", which HARPE_CLOCK_SOCKET names; without an agent, no clock can be set");
  }
  if (!simulated && ::geteuid() != 0) return no_agent();

  HARPE_TRY(write_file(folder_.path() / "policy.toml", kPolicy));
  std::filesystem::permissions(folder_.path() / "policy.toml", std::filesystem::perms::owner_read);
  clock_socket_ = folder_.path() / "clock.sock";
  const std::filesystem::path program =
      HARPE_TRY(find_program("harpe-agent", ProgramPlaces::of_process()));
  std::vector<std::string> words{program.string(),
                                 "--policy",
                                 (folder_.path() / "policy.toml").string(),
                                 "--socket",
                                 (folder_.path() / "agent.sock").string(),
                                 "--clock-socket",
                                 clock_socket_.string(),
                                 "--audit-log",
                                 (folder_.path() / "audit.jsonl").string()};
  if (!simulated) {
    // The path that the node's agent and later commands like this one use. If this command is
    // killed, the state outlives the folder.
    HARPE_TRY(net::usable_directory(net::kRuntimeDirectory));
    words.emplace_back("--state-file");
    words.push_back(std::string(net::kRuntimeDirectory) + "/agent-state.json");
  }
  agent_.emplace(HARPE_TRY(HelperProcess::start(folder_.path() / "agent.log", [&] {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    std::cerr << program.string() << ": "
              << std::error_code(errno, std::generic_category()).message() << std::endl;
    return 1;
  })));
  const bool started =
      holds_within(kAgentStart, [&] { return !agent_->runs() || listens(clock_socket_); });
  if (started && agent_->runs()) return ok_status();
  return Error::of(ErrorCode::kUnavailable,
                   "the agent of this command did not start: " + agent_->last_lines());
}

void OwnServer::set_environment() {
  set("HARPE_SERVER", url_);
  set("HARPE_TOKEN", token_);
  // A user who requests an address other than loopback declares the network trusted.
  if (beyond_this_machine_) set("HARPE_INSECURE", "1");
  // These would take precedence over the token, or select a protocol that the server lacks.
  for (const char* other : {"HARPE_TOKEN_FILE", "HARPE_CA_FILE"}) {
    ::unsetenv(other);  // NOLINT(concurrency-mt-unsafe): before threads
  }
  if (!clock_socket_.empty() || !sets_clocks_) set("HARPE_CLOCK_SOCKET", clock_socket_.string());
  // A proxy of the user's network does not reach this server.
  if (variable("http_proxy").empty() && variable("all_proxy").empty() &&
      variable("ALL_PROXY").empty()) {
    return;
  }
  std::string direct = variable("no_proxy");
  if (direct.empty()) direct = variable("NO_PROXY");
  const std::size_t host = url_.find("//") + 2;
  set("no_proxy",
      (direct.empty() ? direct : direct + ",") + url_.substr(host, url_.rfind(':') - host));
}

Status OwnServer::check() {
  for (std::optional<HelperProcess>* one : {&server_, &agent_}) {
    if (!one->has_value() || (*one)->runs()) continue;
    return Error::of(ErrorCode::kUnavailable,
                     std::string(one == &server_ ? "the server" : "the agent") +
                         " of this command has ended: " + (*one)->last_lines());
  }
  return ok_status();
}

}  // namespace harpe::command
