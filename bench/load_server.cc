#include "load_server.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <fstream>
#include <regex>
#include <sstream>
#include <utility>

#include "harpe/base/file.h"

namespace harpe::bench {
namespace {

void pause_ms(long milliseconds) {
  const timespec time{milliseconds / 1000, milliseconds % 1000 * 1'000'000};
  ::nanosleep(&time, nullptr);
}

/// Returns a line of /proc/PID/status in MiB.
double status_mib(const std::string& status, const std::string& name) {
  const std::size_t at = status.find(name + ":");
  return at == std::string::npos ? 0 : std::atof(status.c_str() + at + name.size() + 1) / 1024;
}

/// Sets the nice value of this process and of its session, since the kernel may divide cores by
/// process or by session.
void take_precedence(int nice) {
  ::setpriority(PRIO_PROCESS, 0, nice);
  std::ofstream("/proc/self/autogroup") << nice;
}

}  // namespace

ProcessUse use_of(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  ProcessUse use;
  if (const auto status = read_file(folder + "/status"); status.ok()) {
    use.memory_mib = status_mib(*status, "VmRSS");
    use.most_memory_mib = status_mib(*status, "VmHWM");
  }
  if (const auto stat = read_file(folder + "/stat"); stat.ok()) {
    // After the name, which is in brackets and may contain any character: fields 14 and 15 are
    // clock ticks.
    std::istringstream fields(stat->substr(stat->rfind(')') + 1));
    std::string field;
    for (int i = 3; i < 14; ++i) fields >> field;
    double user = 0, system = 0;
    fields >> user >> system;
    use.cpu = Seconds{(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK))};
  }
  return use;
}

Status allow_descriptors(std::size_t count) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= count) return ok_status();
  const rlimit wanted{count, std::max<rlim_t>(count, limit.rlim_max)};
  if (::setrlimit(RLIMIT_NOFILE, &wanted) == 0) return ok_status();
  return Error::of(ErrorCode::kNoPermission,
                   "this needs " + std::to_string(count) +
                       " open files, and the hard limit of this shell is " +
                       std::to_string(limit.rlim_max) + "; raise it (as root: ulimit -Hn " +
                       std::to_string(count) + ") or simulate fewer ranks");
}

Result<LoadServer> LoadServer::start(const std::vector<std::string>& arguments,
                                     const std::filesystem::path& log, int nice) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  LoadServer server;
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (out < 0) return Error::io(log.string(), "cannot write");
  server.process_ = ::fork();
  if (server.process_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // In its own session, as a service: if Linux divides a busy machine by session, the server then
    // does not share the time of the ranks.
    ::setsid();
    if (nice != 0) take_precedence(nice);
    ::dup2(out, 1), ::dup2(out, 2);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(out);
  const std::regex url("listening on (?:https?://)?([0-9.]+):([0-9]+)");
  for (int attempt = 0; attempt < 1500; ++attempt) {
    const auto said = read_file(log);
    std::smatch found;
    if (said.ok() && std::regex_search(*said, found, url)) {
      server.address_ = found[1] == "0.0.0.0" ? "127.0.0.1" : found[1].str();
      server.port_ = std::stoi(found[2]);
      return server;
    }
    if (::waitpid(server.process_, nullptr, WNOHANG) == server.process_) {
      server.process_ = -1;
      return Error::of(ErrorCode::kUnavailable,
                       arguments[0] + " ended: " + (said.ok() ? *said : std::string()));
    }
    pause_ms(20);
  }
  return Error::of(ErrorCode::kUnavailable, "the server does not say where it listens");
}

LoadServer::LoadServer(LoadServer&& other) noexcept
    : process_(std::exchange(other.process_, -1)),
      address_(std::move(other.address_)),
      port_(other.port_) {}

LoadServer::~LoadServer() {
  if (process_ < 0) return;
  ::kill(process_, SIGTERM);
  for (int attempt = 0; attempt < 500; ++attempt) {
    if (::waitpid(process_, nullptr, WNOHANG) == process_) return;
    pause_ms(20);
  }
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

}  // namespace harpe::bench
