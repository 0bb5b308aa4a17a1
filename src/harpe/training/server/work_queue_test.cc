#include <gtest/gtest.h>

#include <string>

#include "harpe/training/server/workers.h"

namespace harpe::training {
namespace {

constexpr auto kSmall = Workers::Size::kSmall;
constexpr auto kLarge = Workers::Size::kLarge;

class WorkQueueOf : public testing::Test {
 protected:
  void add(const std::string& owner, char name, Workers::Size size = kSmall) {
    queue_.add(owner, [this, name] { done_ += name; }, size);
  }
  /// Runs the next piece of work. Returns its owner.
  std::string take(bool only_small = false) {
    const WorkQueue::Piece piece = queue_.take(only_small);
    piece.work();
    return piece.owner;
  }
  WorkQueue queue_;
  std::string done_;
};

TEST_F(WorkQueueOf, OwnersTakeTurnsAndTheirWorkKeepsItsOrder) {
  for (const char name : {'a', 'b', 'c'}) add("one", name);
  add("two", 'x');
  add("two", 'y');
  while (queue_.has(false)) queue_.done(take());
  EXPECT_EQ(done_, "axbyc");
  EXPECT_TRUE(queue_.empty());
}

TEST_F(WorkQueueOf, AnOwnerHasOnePieceDoneAtATime) {
  add("one", 'a');
  add("one", 'b');
  const std::string owner = take();
  EXPECT_FALSE(queue_.has(false));
  EXPECT_FALSE(queue_.empty());
  EXPECT_EQ(queue_.waiting(owner), 1U);
  add("one", 'c');
  EXPECT_FALSE(queue_.has(false)) << "what comes meanwhile gives no second turn";
  queue_.done(owner);
  EXPECT_TRUE(queue_.has(false));
}

TEST_F(WorkQueueOf, SmallWorkIsTakenPastTheLargeWorkOfOthers) {
  add("one", 'a', kLarge);
  add("two", 'x', kSmall);
  EXPECT_TRUE(queue_.has(true));
  queue_.done(take(true));
  EXPECT_EQ(done_, "x");
  add("one", 'b', kSmall);
  EXPECT_FALSE(queue_.has(true)) << "small work waits for the large work of its owner";
}

TEST_F(WorkQueueOf, ForgetsWhatNothingHasTaken) {
  add("one", 'a');
  add("one", 'b');
  add("two", 'x');
  const std::string owner = take();
  queue_.clear();
  EXPECT_FALSE(queue_.has(false));
  EXPECT_FALSE(queue_.empty());
  queue_.done(owner);
  EXPECT_TRUE(queue_.empty());
}

}  // namespace
}  // namespace harpe::training
