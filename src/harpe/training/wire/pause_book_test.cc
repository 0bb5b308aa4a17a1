#include "harpe/training/wire/pause_book.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace harpe::training {
namespace {

StageAssignment assignment(std::uint64_t version, std::int64_t from, std::uint64_t pause = 0,
                           std::uint64_t epoch = 1) {
  StageAssignment one{
      .version = version, .epoch = epoch, .from_iteration = from, .clocks = {Megahertz{1200}}};
  if (pause > 0) one.pause = PauseRequest{.number = pause};
  return one;
}

TEST(PauseBook, TrainingPausesBeforeTheIterationItIsAskedFor) {
  PauseBook book;
  EXPECT_FALSE(book.before(7));
  book.take(assignment(1, 0));
  book.take(assignment(2, 10, 1));
  EXPECT_FALSE(book.before(9));
  ASSERT_TRUE(book.before(10));
  ASSERT_TRUE(book.before(12)) << "training that looks now and then";
  const PauseRequest pause = *book.before(10);
  book.follow(pause);
  EXPECT_FALSE(book.before(10)) << "once";
  EXPECT_TRUE(book.lasts(pause, 10));
  book.take(assignment(3, 12, 1));
  EXPECT_TRUE(book.lasts(pause, 10)) << "other clocks, the same pause";
  book.take(assignment(4, 14));
  EXPECT_FALSE(book.lasts(pause, 10));
}

TEST(PauseBook, WhoHasNotLookedYetStillPausesWhereItIsWithdrawn) {
  PauseBook book;
  book.take(assignment(2, 10, 1));
  book.take(assignment(3, 11));
  ASSERT_TRUE(book.before(10));
  EXPECT_FALSE(book.lasts(*book.before(10), 10)) << "and goes on at once";
  EXPECT_FALSE(book.before(11));
}

TEST(PauseBook, OneThatIsHeardOfTooLateIsNotFollowed) {
  PauseBook book;
  book.take(assignment(1, 0));
  EXPECT_FALSE(book.before(57));
  book.take(assignment(2, 33, 1));
  EXPECT_FALSE(book.before(58));
  book.take(assignment(3, 60, 1));
  EXPECT_FALSE(book.before(60)) << "it is the same pause";
  book.take(assignment(4, 70, 2));
  EXPECT_FALSE(book.before(69));
  EXPECT_TRUE(book.before(70));
}

TEST(PauseBook, AnotherPauseEndsTheOneThatWasMoved) {
  PauseBook book;
  book.take(assignment(2, 10, 1));
  const PauseRequest first = *book.before(10);
  book.follow(first);
  book.take(assignment(3, 11));
  book.take(assignment(4, 20, 2));
  EXPECT_FALSE(book.lasts(first, 10));
  EXPECT_FALSE(book.before(19));
  EXPECT_TRUE(book.before(20));
}

TEST(PauseBook, TheOrderOfArrivalDoesNotMatter) {
  const std::uint32_t seed = 20261125;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 500; ++round) {
    std::vector<StageAssignment> all;
    std::uint64_t number = 0;
    for (std::uint64_t version = 1; version <= 10; ++version) {
      const std::int64_t from = std::uniform_int_distribution<std::int64_t>(0, 20)(random);
      const bool asks = std::bernoulli_distribution(0.4)(random);
      number += asks && std::bernoulli_distribution(0.5)(random) ? 1 : 0;
      all.push_back(assignment(version, from, asks ? number + 1 : 0));
    }
    PauseBook in_order, shuffled;
    for (const StageAssignment& one : all) in_order.take(one);
    std::ranges::shuffle(all, random);
    for (const StageAssignment& one : all) shuffled.take(one);
    EXPECT_EQ(in_order.newest(), shuffled.newest());
    for (std::int64_t i = 0; i <= 20; ++i)
      EXPECT_EQ(in_order.before(i), shuffled.before(i)) << "round " << round << ", " << i;
  }
}

}  // namespace
}  // namespace harpe::training
