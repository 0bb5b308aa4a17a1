#include "harpe/command/command/interrupt.h"

#include <array>
#include <cmath>
#include <ctime>

namespace harpe::command {
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

}  // namespace harpe::command
