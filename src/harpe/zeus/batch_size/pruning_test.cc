#include "harpe/zeus/batch_size/pruning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace harpe::zeus {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// The result of one exploration in a sequence.
struct Run {
  int size;
  double cost;
  bool converged;
};

struct Played {
  std::vector<int> order, kept;
};

/// Explores the requested sizes until none is requested, each with the result in `runs`.
Played play(const std::vector<int>& sizes, int default_size, const std::vector<Run>& runs,
            int rounds = 2) {
  std::map<int, std::vector<ExplorationResult>> results;
  Played played;
  for (std::size_t next = 0;; ++next) {
    const PruningStep step = next_pruning_step(
        sizes, default_size, rounds, [&](int size, int visit) -> std::optional<ExplorationResult> {
          const auto& known = results[size];
          const auto at = static_cast<std::size_t>(visit);
          return at < known.size() ? std::optional(known[at]) : std::nullopt;
        });
    if (!step.explore) {
      played.kept = step.kept;
      return played;
    }
    played.order.push_back(*step.explore);
    if (next == runs.size() || runs[next].size != *step.explore) {
      ADD_FAILURE() << "asks for " << *step.explore << " as number " << next;
      return played;
    }
    results[runs[next].size].push_back({runs[next].cost, runs[next].converged});
  }
}

const std::vector<int> kPowers{8, 16, 32, 64, 128, 256};

TEST(Pruning, GoesDownThenUpAndTheNextRoundBeginsAtTheCheapest) {
  const Played played = play(kPowers, 128,
                             {{128, 10, true},
                              {64, 9, true},
                              {32, 8, true},
                              {16, 12, true},
                              {8, 21, false},
                              {256, 15, true},
                              {32, 8, true},
                              {16, 12, false},
                              {64, 9, true},
                              {128, 10, true},
                              {256, 17, false}});
  EXPECT_THAT(played.kept, ElementsAre(32, 64, 128));
}

TEST(Pruning, FromTheLargestThereIsOnlyDown) {
  const Played played = play(kPowers, 256,
                             {{256, 7, true},
                              {128, 8, true},
                              {64, 9, true},
                              {32, 13, true},
                              {16, 22, false},
                              {256, 8, true},
                              {128, 8.5, true},
                              {64, 9, true},
                              {32, 12, true}});
  EXPECT_THAT(played.kept, ElementsAre(32, 64, 128, 256));
}

TEST(Pruning, FromTheSmallestThereIsOnlyUp) {
  const Played played = play(kPowers, 8,
                             {{8, 10, true},
                              {16, 17, true},
                              {32, 20, true},
                              {64, 25, false},
                              {8, 10, true},
                              {16, 21, false}});
  EXPECT_THAT(played.kept, ElementsAre(8));
}

TEST(Pruning, KeepsTheOneThatConverges) {
  const Played played =
      play(kPowers, 64, {{64, 10, true}, {32, 22, false}, {128, 25, false}, {64, 9, true}});
  EXPECT_THAT(played.kept, ElementsAre(64));
}

TEST(Pruning, KeepsAllWhereAllConverge) {
  const Played played = play(kPowers, 64,
                             {{64, 5, true},
                              {32, 3, true},
                              {16, 4, true},
                              {8, 5, true},
                              {128, 6, true},
                              {256, 7, true},
                              {32, 3, true},
                              {16, 4, true},
                              {8, 5, true},
                              {64, 5, true},
                              {128, 6, true},
                              {256, 7, true}});
  EXPECT_THAT(played.kept, ElementsAre(8, 16, 32, 64, 128, 256));
}

TEST(Pruning, WithoutOneThatConvergesNothingIsKept) {
  const Played played =
      play(kPowers, 64, {{64, 10, false}, {128, 10, true}, {256, 9, false}, {128, 10, false}});
  EXPECT_THAT(played.kept, IsEmpty());
}

TEST(Pruning, WithoutRoundsKeepsAll) {
  EXPECT_EQ(play(kPowers, 64, {}, 0).kept, kPowers);
}

}  // namespace
}  // namespace harpe::zeus
