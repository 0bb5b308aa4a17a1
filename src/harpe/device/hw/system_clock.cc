#include "harpe/device/hw/system_clock.h"

#include <cerrno>
#include <ctime>
#include <limits>

namespace harpe {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
// Two readings of a clock take less than a microsecond unless the thread is interrupted.
constexpr Seconds kClose{1e-4};
constexpr int kMostReadings = 20;

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

double seconds_since_1970() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double time_of_day_at(Instant at, const Clock& clock, const std::function<double()>& time_of_day) {
  double best = 0;
  Seconds closest{std::numeric_limits<double>::infinity()};
  for (int i = 0; i < kMostReadings && closest > kClose; ++i) {
    const Instant before = clock.now();
    const double then = time_of_day();
    const Seconds apart = clock.now() - before;
    if (apart >= closest) continue;
    closest = apart;
    best = then + (at - (before + apart / 2)).value;
  }
  return best;
}

}  // namespace harpe
