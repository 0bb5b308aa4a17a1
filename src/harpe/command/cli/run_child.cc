#include "harpe/command/cli/run_child.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>

#include "harpe/device/hw/system_clock.h"

namespace harpe::command {
namespace {

constexpr std::array kPassedOn = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGTSTP,  SIGTTIN,
                                  SIGTTOU, SIGCONT, SIGUSR1, SIGUSR2, SIGWINCH, SIGALRM};
constexpr Seconds kLongWait{3600};
constexpr int kNotFound = 127, kNotExecutable = 126, kSignalled = 128;

std::string system_message(int error) {
  return std::strerror(error);  // NOLINT(concurrency-mt-unsafe): one thread runs children
}

int wait_ignoring_interrupts(pid_t child, int* status, int options) {
  int found = 0;
  do {
    found = ::waitpid(child, status, options);
  } while (found < 0 && errno == EINTR);
  return found;
}

/// Returns true if the child has ended, and sets `exit`. Stops this process while the child stops.
bool has_ended(pid_t child, ChildExit& exit) {
  int status = 0;
  while (wait_ignoring_interrupts(child, &status, WNOHANG | WUNTRACED) == child) {
    if (WIFEXITED(status)) {
      exit.status = WEXITSTATUS(status);
      return true;
    }
    if (WIFSIGNALED(status)) {
      exit.signal = WTERMSIG(status);
      exit.status = kSignalled + exit.signal;
      return true;
    }
    if (WIFSTOPPED(status)) {
      ::raise(SIGSTOP);  // until another process continues us
      ::kill(child, SIGCONT);
    }
  }
  return false;
}

}  // namespace

ChildRunner::ChildRunner() {
  ::sigemptyset(&waited_);
  for (const int signal : kPassedOn) ::sigaddset(&waited_, signal);
  ::sigaddset(&waited_, SIGCHLD);
  // If the parent process made SIGCHLD ignored, ends of children would not be reported.
  struct sigaction usual{};
  usual.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &usual, &child_before_);
  ::pthread_sigmask(SIG_BLOCK, &waited_, &before_);
}

void ChildRunner::forget_signals() {
  const timespec now{};
  while (::sigtimedwait(&waited_, nullptr, &now) > 0) {
  }
}

ChildRunner::~ChildRunner() {
  forget_signals();
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  ::sigaction(SIGCHLD, &child_before_, nullptr);
}

bool ChildRunner::asked_to_end() {
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaddset(&ends, signal);
  const timespec now{};
  return ::sigtimedwait(&ends, nullptr, &now) > 0;
}

Result<ChildExit> ChildRunner::run(const std::vector<std::string>& command) {
  HARPE_TRY(start(command));
  for (;;) {
    if (auto exit = wait(kLongWait)) return *std::move(exit);
  }
}

Status ChildRunner::start(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  std::array<int, 2> failure{};
  if (::pipe2(failure.data(), O_CLOEXEC) != 0) {
    return Error::of(ErrorCode::kUnavailable, "cannot create a pipe: " + system_message(errno));
  }
  const pid_t child = ::fork();
  if (child < 0) {
    const int error = errno;
    ::close(failure[0]);
    ::close(failure[1]);
    return Error::of(ErrorCode::kUnavailable, "cannot start a process: " + system_message(error));
  }
  if (child == 0) {
    ::sigaction(SIGCHLD, &child_before_, nullptr);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    ::execvp(arguments[0], arguments.data());
    const int error = errno;
    (void)!::write(failure[1], &error, sizeof error);
    ::_exit(error == ENOENT ? kNotFound : kNotExecutable);
  }
  ::close(failure[1]);
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(failure[0], &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  ::close(failure[0]);

  child_ = child;
  exit_ = {};
  if (got == sizeof error) exit_.failure = system_message(error);
  return ok_status();
}

std::optional<ChildExit> ChildRunner::wait(Seconds longest) {
  const Instant end = system_clock().now() + longest;
  while (child_ >= 0 && !has_ended(child_, exit_)) {
    const Seconds left = end - system_clock().now();
    if (left <= Seconds{0}) return std::nullopt;
    const double whole = std::floor(left.value);
    const timespec time{.tv_sec = static_cast<time_t>(whole),
                        .tv_nsec = static_cast<long>((left.value - whole) * 1e9)};
    siginfo_t info{};
    const int signal = ::sigtimedwait(&waited_, &info, &time);
    if (signal <= 0 || signal == SIGCHLD) continue;
    const bool from_terminal = info.si_code == SI_KERNEL || info.si_code > 0;
    if (!from_terminal && info.si_pid != child_) ::kill(child_, signal);
  }
  child_ = -1;
  forget_signals();  // signals after the child's end must not prevent the report
  return exit_;
}

void ChildRunner::send(int signal) {
  if (child_ >= 0) ::kill(child_, signal);
}

}  // namespace harpe::command
