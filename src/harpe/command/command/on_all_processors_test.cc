#include "harpe/command/command/on_all_processors.h"

#include <gmock/gmock.h>

#include <vector>

namespace harpe::command {
namespace {

using testing::AllOf;
using testing::Each;
using testing::Ge;
using testing::Lt;

TEST(OnAllProcessors, CallsForEachOnce) {
  for (const std::size_t count : {0U, 1U, 1000U}) {
    std::vector<int> calls(count);
    std::vector<double> shares;
    on_all_processors(
        count, [&](std::size_t i) { ++calls[i]; }, [&](double share) { shares.push_back(share); });
    EXPECT_THAT(calls, Each(1));
    EXPECT_THAT(shares, Each(AllOf(Ge(0), Lt(1))));
    on_all_processors(count, [&](std::size_t i) { ++calls[i]; }, {});
    EXPECT_THAT(calls, Each(2));
  }
}

}  // namespace
}  // namespace harpe::command
