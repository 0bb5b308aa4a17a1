#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harpe/base/scheduler_testing.h"

namespace harpe {
namespace {

using ::testing::ElementsAre;

TEST(Scheduler, EventsAndThreadsTakeTurnsInTheOrderOfTheirTimes) {
  Scheduler scheduler;
  std::vector<std::string> seen;
  scheduler.after(2_s, [&] { seen.emplace_back("event at 2"); });
  scheduler.start([&] {
    seen.emplace_back("thread at 0");
    scheduler.sleep_until(Instant{} + 1_s);
    seen.emplace_back("thread at 1");
    scheduler.sleep_until(Instant{} + 2_s);
    seen.emplace_back("thread at 2");
  });
  scheduler.run_until(Instant{} + 3_s);
  EXPECT_THAT(seen, ElementsAre("thread at 0", "thread at 1", "event at 2", "thread at 2"));
  EXPECT_EQ(scheduler.now(), Instant{} + 3_s);
}

TEST(Scheduler, AThreadThatIsWokenForgetsItsTimer) {
  Scheduler scheduler;
  std::vector<Instant> woken;
  Scheduler::Thread* sleeper = nullptr;
  scheduler.start([&] {
    sleeper = scheduler.running();
    scheduler.sleep_until(Instant{} + 5_s);
    woken.push_back(scheduler.now());
    scheduler.sleep_until(Instant{} + 9_s);
    woken.push_back(scheduler.now());
  });
  scheduler.after(1_s, [&] { scheduler.wake(*sleeper); });
  scheduler.run_until(Instant{} + 10_s);
  EXPECT_THAT(woken, ElementsAre(Instant{} + 1_s, Instant{} + 9_s));
}

TEST(Scheduler, TheOneThatMadeItSleepsByItToo) {
  Scheduler scheduler;
  SchedulerClock clock(scheduler);
  std::vector<std::string> seen;
  scheduler.start([&] {
    for (int i = 1; i <= 3; ++i) {
      clock.sleep_until(Instant{} + Seconds{static_cast<double>(i)});
      seen.push_back("thread at " + std::to_string(i));
    }
  });
  clock.sleep_until(Instant{} + 2_s);
  seen.emplace_back("maker at 2");
  EXPECT_FALSE(scheduler.is_idle());
  clock.sleep_until(Instant{} + 4_s);
  EXPECT_TRUE(scheduler.is_idle());
  // If two threads have the same wake-up time, the thread that fell asleep first wakes first.
  EXPECT_THAT(seen, ElementsAre("thread at 1", "maker at 2", "thread at 2", "thread at 3"));
}

TEST(Scheduler, AnEventMustNotWait) {
  Scheduler scheduler;
  scheduler.after(1_s, [&] { scheduler.sleep_until(Instant{} + 2_s); });
  EXPECT_DEATH(scheduler.run_until(Instant{} + 3_s), "an event waits");
}

}  // namespace
}  // namespace harpe
