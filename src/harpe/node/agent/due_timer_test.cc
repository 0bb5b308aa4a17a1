#include "harpe/node/agent/due_timer.h"

#include <gtest/gtest.h>

#include <optional>

#include "harpe/device/hw/system_clock.h"

namespace harpe::node {
namespace {

TEST(DueTimer, IsDueOnceAtTheLastTimeThatWasSet) {
  net::ServerLoop loop;
  int calls = 0;
  Instant due;
  auto timer = DueTimer::open(loop, [&] {
    ++calls;
    EXPECT_GE(system_clock().now(), due);
    // Leaves time for another call, which must not happen.
    loop.after(Seconds{0.02}, [&] { loop.stop(); });
  });
  ASSERT_TRUE(timer.ok()) << timer.error().text();
  const Instant now = system_clock().now();
  timer->set(now + Seconds{3600});
  timer->set(now);
  due = now + Seconds{0.03};
  timer->set(due);
  loop.run();
  EXPECT_EQ(calls, 1);
}

TEST(DueTimer, IsDueAtOnceInThePastAndNeverWithoutATime) {
  for (const std::optional<Instant> due : {std::optional(Instant{}), std::optional<Instant>()}) {
    net::ServerLoop loop;
    int calls = 0;
    auto timer = DueTimer::open(loop, [&] { ++calls; });
    ASSERT_TRUE(timer.ok()) << timer.error().text();
    timer->set(system_clock().now() + Seconds{0.01});
    timer->set(due);
    loop.after(Seconds{0.05}, [&] { loop.stop(); });
    loop.run();
    EXPECT_EQ(calls, due ? 1 : 0);
  }
}

}  // namespace
}  // namespace harpe::node
