// Data that training's thread shares with others: never lost, torn, out of order or leaked.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>

#include "harpe/training/client/latest_snapshot.h"
#include "harpe/training/client/rank_event.h"
#include "harpe/training/client/wanted_clock.h"

namespace harpe::training {
namespace {

TEST(RankEventQueue, EverythingArrivesInOrderOrIsCountedAsLost) {
  RankEventQueue ring;
  constexpr std::int64_t kEvents = 400'000;
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (std::int64_t i = 0; i < kEvents; ++i) {
      ring.push({.at = {i}, .number = i, .version = static_cast<std::uint64_t>(3 * i)});
      if (i % 1000 == 0) std::this_thread::yield();
    }
    done = true;
  });
  std::int64_t last = -1, count = 0;
  RankEvent event;
  for (;;) {
    const bool over = done;
    if (ring.pop(event)) {
      ASSERT_GT(event.number, last);
      ASSERT_EQ(event.at.ns, event.number);
      ASSERT_EQ(event.version, static_cast<std::uint64_t>(3 * event.number));
      last = event.number;
      ++count;
    } else if (over) {
      break;
    }
  }
  writer.join();
  EXPECT_EQ(count + static_cast<std::int64_t>(ring.lost()), kEvents);
}

TEST(RankEventQueue, AFullRingLosesTheNewAndKeepsTheOld) {
  RankEventQueue ring;
  for (std::size_t i = 0; i < RankEventQueue::kCapacity; ++i) {
    ASSERT_TRUE(ring.push({.number = static_cast<std::int64_t>(i)}));
  }
  EXPECT_FALSE(ring.push({}));
  EXPECT_EQ(ring.lost(), 1);
  RankEvent event;
  ASSERT_TRUE(ring.pop(event));
  EXPECT_EQ(event.number, 0);
  EXPECT_TRUE(ring.push({.number = 77}));
}

struct Watched {
  Watched(int which, std::atomic<int>& count) : number(which), living(count) { ++living; }
  ~Watched() {
    alive = false;
    --living;
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  int number;
  bool alive = true;
  std::atomic<int>& living;
};

TEST(LatestSnapshot, ReadersSeeTheNewestAndNothingIsDestroyedUnderThem) {
  std::atomic<int> living = 0;
  {
    LatestSnapshot<Watched, 2> latest_snapshot;
    EXPECT_EQ(latest_snapshot.acquire(0), nullptr);
    std::atomic<bool> done = false;
    const auto read = [&](std::size_t reader) {
      int last = 0;
      while (!done) {
        Watched* watched = latest_snapshot.acquire(reader);
        if (watched == nullptr) continue;
        for (int i = 0; i < 20; ++i) ASSERT_TRUE(watched->alive);
        ASSERT_GE(watched->number, last);
        last = watched->number;
      }
      latest_snapshot.release(reader);
    };
    std::thread first(read, 0), second(read, 1);
    for (int i = 1; i <= 20'000; ++i) {
      latest_snapshot.publish(std::make_unique<Watched>(i, living));
      ASSERT_LE(latest_snapshot.owned(), 5) << "the newest, and what readers hold or just held";
    }
    done = true;
    first.join();
    second.join();
    EXPECT_EQ(latest_snapshot.acquire(0)->number, 20'000);
    latest_snapshot.release(0);
    latest_snapshot.publish(nullptr);
    EXPECT_EQ(latest_snapshot.owned(), 0);
  }
  EXPECT_EQ(living, 0);
}

TEST(WantedClock, TellsOnlyChanges) {
  WantedClock wanted;
  int told = 0, last = -1;
  const auto tell = [&](Megahertz clock) {
    ++told;
    last = clock.value;
  };
  EXPECT_FALSE(wanted.step(WantedClock::kAsItIs, tell));
  EXPECT_TRUE(wanted.step({900}, tell));
  EXPECT_FALSE(wanted.step({900}, tell));
  EXPECT_FALSE(wanted.step(WantedClock::kAsItIs, tell));
  EXPECT_TRUE(wanted.step({0}, tell)) << "takes the lock off";
  EXPECT_EQ(told, 2);
  EXPECT_EQ(last, 0);
  EXPECT_EQ(wanted.steps(), 5);
}

TEST(WantedClock, AheadOfTheRightStepOnly) {
  WantedClock wanted;
  int last = -1;
  const auto tell = [&](Megahertz clock) { last = clock.value; };
  wanted.step({1410}, tell);
  EXPECT_TRUE(wanted.ahead(1, {900}, tell));
  EXPECT_EQ(last, 900);
  EXPECT_FALSE(wanted.step({900}, tell)) << "it was asked for already";
  EXPECT_FALSE(wanted.ahead(1, {1200}, tell)) << "too late";
  EXPECT_EQ(wanted.clock(), 900_MHz);
}

TEST(WantedClock, TheLastClockToldIsTheNewestWhoeverTellsIt) {
  WantedClock wanted;
  std::atomic<int> told = -1;
  std::atomic<bool> done = false;
  const auto tell = [&](Megahertz clock) { told = clock.value; };
  std::thread timer([&] {
    std::minstd_rand random(7);
    while (!done) {
      const std::uint32_t step = wanted.steps();
      wanted.ahead(step, {500 + static_cast<int>(random() % 5)}, tell);
    }
  });
  std::minstd_rand random(3);
  for (int i = 0; i < 200'000; ++i) wanted.step({900 + static_cast<int>(random() % 5)}, tell);
  done = true;
  timer.join();
  EXPECT_EQ(told, wanted.clock().value);
}

}  // namespace
}  // namespace harpe::training
