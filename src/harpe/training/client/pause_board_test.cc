#include "harpe/training/client/pause_board.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>

#include "harpe/base/clock.h"
#include "harpe/base/eventually_testing.h"

namespace harpe::training {
namespace {

constexpr Seconds kForEver{std::numeric_limits<double>::infinity()};

class PauseBoardTest : public ::testing::Test {
 protected:
  static StageAssignment assignment(std::uint64_t version, std::int64_t from,
                                    std::optional<PauseRequest> pause = {}) {
    return {.version = version,
            .epoch = 1,
            .from_iteration = from,
            .clocks = {Megahertz{1200}},
            .pause = std::move(pause)};
  }
  void ask(std::optional<Seconds> until = {}) {
    board_.take({assignment(1, 0), assignment(2, 10, PauseRequest{.number = 1, .until = until})});
  }

  ManualClock clock_;
  std::atomic<double> wall_ = 1000;
  PauseBoard board_{clock_, [this] { return Seconds{wall_}; }};
};

TEST_F(PauseBoardTest, TrainingWaitsUntilItIsToGoOn) {
  board_.governed(true);
  ask();
  EXPECT_EQ(board_.reached(), -1);
  EXPECT_FALSE(board_.before(9));
  EXPECT_EQ(board_.reached(), 9);
  EXPECT_TRUE(board_.wait(kForEver)) << "it is not asked";
  ASSERT_TRUE(board_.before(10));
  EXPECT_EQ(board_.reached(), 9) << "it is to wait before 10";
  std::atomic<bool> gone_on = false;
  std::thread training([&] { gone_on = board_.wait(kForEver); });
  EXPECT_TRUE(eventually([&] { return board_.waiting() == 1; }));
  board_.take({assignment(3, 12, PauseRequest{.number = 1})});
  EXPECT_FALSE(gone_on);
  board_.take({assignment(4, 14)});
  training.join();
  EXPECT_TRUE(gone_on);
  EXPECT_EQ(board_.waiting(), 0U);
  EXPECT_EQ(board_.reached(), 10);
  EXPECT_FALSE(board_.before(10));
}

TEST_F(PauseBoardTest, AWaitMayHaveALimit) {
  board_.governed(true);
  ask();
  ASSERT_TRUE(board_.before(10));
  EXPECT_FALSE(board_.wait(Seconds{0}));
  EXPECT_FALSE(board_.wait(Seconds{0})) << "it may be waited on";
  EXPECT_EQ(board_.waiting(), 1U);
  EXPECT_FALSE(board_.before(10)) << "it was followed";
  EXPECT_EQ(board_.waiting(), 0U);
  EXPECT_TRUE(board_.wait(kForEver));
}

TEST_F(PauseBoardTest, WithoutAServerItEndsWhenItWasTo) {
  board_.governed(true);
  ask(Seconds{2000});
  ASSERT_TRUE(board_.before(10));
  wall_ = 2001;
  EXPECT_FALSE(board_.wait(Seconds{0})) << "its server still asks";
  wall_ = 1500;
  board_.governed(false);
  EXPECT_FALSE(board_.wait(Seconds{0}));
  wall_ = 2000;
  EXPECT_TRUE(board_.wait(kForEver));
}

TEST_F(PauseBoardTest, OneWithoutAnEndOutlivesItsServerForAWhile) {
  board_.governed(true);
  ask();
  ASSERT_TRUE(board_.before(10));
  clock_.advance(PauseBoard::kAlone * 2);
  board_.governed(false);
  EXPECT_FALSE(board_.wait(Seconds{0}));
  clock_.advance(PauseBoard::kAlone);
  EXPECT_TRUE(board_.wait(kForEver));
}

TEST_F(PauseBoardTest, NothingIsAskedByAJobThatIsAnotherOneNow) {
  board_.governed(true);
  ask();
  ASSERT_TRUE(board_.before(10));
  std::atomic<bool> gone_on = false;
  std::thread training([&] { gone_on = board_.wait(kForEver); });
  EXPECT_TRUE(eventually([&] { return board_.waiting() == 1; }));
  board_.forget();
  training.join();
  EXPECT_TRUE(gone_on);
}

}  // namespace
}  // namespace harpe::training
