#include "harpe/hw/system_clock.h"

#include <cerrno>
#include <ctime>

namespace harpe {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

class SystemClock final : public Clock {
 public:
  Instant now() const override {
    timespec time{};
    clock_gettime(CLOCK_BOOTTIME, &time);
    return {time.tv_sec * kSecond + time.tv_nsec};
  }

  void sleep_until(Instant until) override {
    const timespec time{.tv_sec = until.ns / kSecond, .tv_nsec = until.ns % kSecond};
    while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &time, nullptr) == EINTR) {
    }
  }
};

}  // namespace

Clock& system_clock() {
  static SystemClock clock;
  return clock;
}

}  // namespace harpe
