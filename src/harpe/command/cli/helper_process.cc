#include "harpe/command/cli/helper_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <string_view>
#include <system_error>
#include <thread>

#include "harpe/base/file.h"
#include "harpe/device/hw/system_clock.h"

namespace harpe {
namespace {

constexpr Seconds kPatience{10};
constexpr std::size_t kLastBytes = 2000;
constexpr std::string_view kError = "error: ";  // before what commands say of themselves

/// In the new process: nothing of the parent's signals, terminal and streams is left.
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

}  // namespace

Result<HelperProcess> HelperProcess::start(std::filesystem::path log,
                                           const std::function<int()>& body) {
  const int file = ::open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) {
    return Error::io(log.string(), "cannot be made: " +
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
        "no new process: " + std::error_code(error, std::generic_category()).message());
  }
  return HelperProcess(id, std::move(log));
}

HelperProcess::~HelperProcess() {
  if (id_ < 0) return;
  ::kill(id_, SIGTERM);
  if (holds_within(kPatience, [this] { return !runs(); })) return;
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

}  // namespace harpe
