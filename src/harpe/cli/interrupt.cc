#include "harpe/cli/interrupt.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>

namespace harpe {
namespace {

constexpr std::array kEnds = {SIGINT, SIGTERM, SIGHUP};

}  // namespace

InterruptScope::InterruptScope() {
  ::sigemptyset(&waited_);
  for (const int signal : kEnds) ::sigaddset(&waited_, signal);
  ::pthread_sigmask(SIG_BLOCK, &waited_, &before_);
}

InterruptScope::~InterruptScope() {
  const timespec now{};
  while (::sigtimedwait(&waited_, nullptr, &now) > 0) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool InterruptScope::wait(Seconds time) {
  if (signal_ != 0) return true;
  const double whole = std::floor(time.value);
  const timespec left{.tv_sec = static_cast<time_t>(whole),
                      .tv_nsec = static_cast<long>((time.value - whole) * 1e9)};
  const int came = ::sigtimedwait(&waited_, nullptr, &left);
  if (came > 0) signal_ = came;
  return signal_ != 0;
}

HangGuard::HangGuard(std::string message)
    : message_(std::move(message)), thread_([this] { watch(); }) {}

HangGuard::~HangGuard() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void HangGuard::watch() {
  constexpr std::chrono::milliseconds kLook(200);
  constexpr int kLooks = 10;
  int waits = 0;  // looks at which a signal was waiting
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [this] { return leaving_; })) {
    sigset_t pending{};
    ::sigpending(&pending);
    int signal = 0;
    for (const int one : kEnds) signal = ::sigismember(&pending, one) == 1 ? one : signal;
    waits = signal == 0 ? 0 : waits + 1;
    if (waits < kLooks) continue;
    std::fprintf(stderr, "\n%s\n", message_.c_str());
    constexpr int kSignalled = 128;
    std::_Exit(kSignalled + signal);
  }
}

}  // namespace harpe
