#include "harpe/node/agent/due_timer.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace harpe::node {

Result<DueTimer> DueTimer::open(net::ServerLoop& loop, std::function<void()> when_due) {
  UniqueFd timer(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) {
    return Error::of(ErrorCode::kUnavailable, "the limit of open files is reached (ulimit -n)");
  }
  const int descriptor = timer.get();
  auto watch = loop.watch(descriptor, [descriptor, when_due = std::move(when_due)] {
    std::uint64_t times = 0;
    // Reads nothing if the timer was set again in the meantime.
    if (::read(descriptor, &times, sizeof times) == sizeof times) when_due();
  });
  return DueTimer(std::move(timer), std::move(watch));
}

void DueTimer::set(std::optional<Instant> due) {
  itimerspec spec{};
  if (due) {
    // Zero would disarm the timer.
    const std::int64_t ns = std::max<std::int64_t>(due->ns, 1);
    spec.it_value = {static_cast<time_t>(ns / 1'000'000'000),
                     static_cast<long>(ns % 1'000'000'000)};
  }
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

}  // namespace harpe::node
