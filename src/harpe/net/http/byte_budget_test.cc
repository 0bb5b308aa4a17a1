#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

#include "harpe/net/http/admission.h"

namespace harpe::net {
namespace {

constexpr std::size_t kFree = ByteBudget::kFree;

TEST(ByteBudget, LimitsAllAndEachClient) {
  const auto budget =
      std::make_shared<ByteBudget>(ByteBudget::Limits{.total = 1000, .per_client = 600});
  ByteBudget::Share one(budget, "a"), two(budget, "a"), other(budget, "b");
  EXPECT_TRUE(one.hold(kFree + 400));
  EXPECT_FALSE(two.hold(kFree + 201));
  EXPECT_TRUE(two.hold(kFree + 200));
  EXPECT_TRUE(other.hold(kFree + 400));
  EXPECT_EQ(budget->held(), 1000U);
  EXPECT_FALSE(other.hold(kFree + 401));
  EXPECT_EQ(budget->held(), 1000U) << "what is refused changes nothing";
  // Free bytes need no room, and a share can always shrink.
  ByteBudget::Share small(budget, "c");
  EXPECT_TRUE(small.hold(kFree));
  EXPECT_TRUE(one.hold(0));
  EXPECT_TRUE(other.hold(kFree + 800));
}

TEST(ByteBudget, HasRoomForOneThatIsLarger) {
  const auto budget =
      std::make_shared<ByteBudget>(ByteBudget::Limits{.total = 1000, .per_client = 600});
  ByteBudget::Share large(budget, "a"), other(budget, "b");
  EXPECT_TRUE(large.hold(kFree + 5000));
  EXPECT_TRUE(large.hold(kFree + 6000));
  EXPECT_FALSE(other.hold(kFree + 1));
  large.hold(0);
  EXPECT_TRUE(other.hold(kFree + 1));
  EXPECT_FALSE(large.hold(kFree + 1000));
}

TEST(ByteBudget, HasEverythingBackInTheEnd) {
  constexpr unsigned kSeed = 20261122;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  const auto budget =
      std::make_shared<ByteBudget>(ByteBudget::Limits{.total = 50'000, .per_client = 20'000});
  {
    std::vector<std::optional<ByteBudget::Share>> shares(40);
    for (int i = 0; i < 10'000; ++i) {
      auto& share = shares[random() % shares.size()];
      if (!share) {
        share.emplace(budget, std::string(1, static_cast<char>('a' + random() % 5)));
      } else if (random() % 10 == 0) {
        share.reset();
      } else {
        share->hold(random() % 15'000);
      }
      ASSERT_LE(budget->held(), 50'000U);
    }
    EXPECT_GT(budget->held(), 0U);
  }
  EXPECT_EQ(budget->held(), 0U);
}

}  // namespace
}  // namespace harpe::net
