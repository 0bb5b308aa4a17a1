// The assignments in force, compared with a direct reading of the rule over all assignments that
// were sent.

#include "harpe/training/client/assignment_book.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace harpe::training {
namespace {

using Purpose = StageAssignment::Purpose;

StageAssignment assignments(std::uint64_t version, std::int64_t from, int clock) {
  return {
      .version = version, .from_iteration = from, .purpose = Purpose::kPlan, .clocks = {{clock}}};
}

StageAssignment of_epoch(std::uint64_t epoch, StageAssignment assignments) {
  assignments.epoch = epoch;
  return assignments;
}

TEST(AssignmentBook, SwitchesExactlyAtTheIteration) {
  AssignmentBook book(3);
  EXPECT_EQ(book.in_force(0), nullptr);
  ASSERT_TRUE(book.add(assignments(1, 0, 1410)).ok());
  ASSERT_TRUE(book.add(assignments(2, 7, 1200)).ok());
  EXPECT_EQ(book.in_force(6)->clocks, std::vector<Megahertz>(3, {1410}));
  EXPECT_EQ(book.in_force(7)->clocks, std::vector<Megahertz>(3, {1200}));
}

TEST(AssignmentBook, KnowsWhatIsSetThroughoutAnAssignment) {
  AssignmentBook book(3);
  const Knobs slow{.memory_clock = {810}, .power_limit = {250}};
  Knobs labelled = slow;
  labelled.label = *Label::of("sm12");
  StageAssignment one = assignments(1, 0, 900);
  one.knobs = {slow};
  ASSERT_TRUE(book.add(one).ok());
  EXPECT_EQ(book.in_force(0)->knobs, std::vector<Knobs>(3, slow));
  EXPECT_EQ(book.in_force(0)->steady, slow);
  EXPECT_FALSE(book.in_force(0)->has_labels);

  one.version = 2;
  one.clocks = {{900}, {0}, {800}};
  one.knobs = {slow, {}, labelled};
  ASSERT_TRUE(book.add(one).ok());
  EXPECT_EQ(book.in_force(0)->steady, slow) << "where there is no choice, nothing is said";
  EXPECT_TRUE(book.in_force(0)->has_labels);
  EXPECT_EQ(book.in_force(0)->refusal, "");

  one.version = 3;
  one.knobs[2].power_limit = {};
  ASSERT_TRUE(book.add(one).ok());
  EXPECT_NE(book.in_force(0)->refusal.find("the power limit (250 W and as it is)"),
            std::string::npos)
      << book.in_force(0)->refusal;

  one.version = 4;
  one.knobs.pop_back();
  EXPECT_FALSE(book.add(one).ok());
}

TEST(AssignmentBook, AgreesWithTheRuleWhateverOrderAssignmentsComeIn) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto pick = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  for (int round = 0; round < 500; ++round) {
    // As sent by a server: versions rise, and usually their first iterations, too.
    std::vector<StageAssignment> sent;
    std::int64_t from = 0;
    for (int version = 1; version <= 12; ++version) {
      from = std::max<std::int64_t>(0, from + pick(-3, 5));
      sent.push_back(assignments(static_cast<std::uint64_t>(version), from, 100 * version));
    }
    const auto rule = [&](std::int64_t iteration) {
      std::uint64_t holds = 0;
      for (const StageAssignment& one : sent) {
        if (one.from_iteration <= iteration) holds = std::max(holds, one.version);
      }
      return holds;
    };
    std::vector<StageAssignment> arriving = sent;
    arriving.push_back(sent[static_cast<std::size_t>(pick(0, 11))]);
    std::ranges::shuffle(arriving, random);
    AssignmentBook book(2);
    for (const StageAssignment& one : arriving) ASSERT_TRUE(book.add(one).ok());
    std::int64_t now = 0;
    for (std::int64_t iteration = 0; iteration < 60; iteration += pick(0, 3)) {
      now = std::max(now, iteration);
      book.forget_before(now);
      for (std::int64_t later = now; later < now + 8; ++later) {
        const StageAssignment* holds = book.in_force(later);
        ASSERT_EQ(holds == nullptr ? 0 : holds->version, rule(later)) << "iteration " << later;
      }
    }
  }
}

TEST(AssignmentBook, TakesNothingFromAServerThatHadTheJobBefore) {
  AssignmentBook book(1);
  ASSERT_TRUE(book.add(of_epoch(3, assignments(7, 0, 1410))).ok());
  ASSERT_TRUE(book.add(of_epoch(4, assignments(1007, 12, 1200))).ok());
  ASSERT_TRUE(book.add(of_epoch(3, assignments(8, 10, 600))).ok());
  EXPECT_EQ(book.size(), 2) << "left out";
  EXPECT_EQ(book.in_force(11)->version, 7) << "until the new server's hold";
  EXPECT_EQ(book.in_force(12)->version, 1007);
  // A newer epoch takes precedence, even if its versions were used before.
  ASSERT_TRUE(book.add(of_epoch(5, assignments(9, 14, 900))).ok());
  EXPECT_EQ(book.in_force(14)->version, 9);
  EXPECT_EQ(book.newest(), 9);
}

TEST(AssignmentBook, RefusesWhatDoesNotFitTheStage) {
  AssignmentBook book(3);
  StageAssignment two = assignments(1, 0, 900);
  two.clocks.assign(2, {900});
  EXPECT_FALSE(book.add(two).ok());
  EXPECT_FALSE(book.add(assignments(0, 0, 900)).ok());
  EXPECT_FALSE(book.add(assignments(1, 0, -5)).ok());
  two.clocks.clear();
  EXPECT_FALSE(book.add(two).ok());
  EXPECT_EQ(book.size(), 0);
}

TEST(AssignmentBook, KeepsTheNewestOfTooMany) {
  AssignmentBook book(1);
  for (int i = 1; i <= 1000; ++i) {
    ASSERT_TRUE(book.add(assignments(static_cast<std::uint64_t>(i), 2000 - i, 900)).ok());
  }
  EXPECT_EQ(book.size(), AssignmentBook::kMostAssignments);
  EXPECT_EQ(book.newest(), 1000);
  EXPECT_EQ(book.of_version(1000)->from_iteration, 1000);
  EXPECT_EQ(book.of_version(1), nullptr);
}

}  // namespace
}  // namespace harpe::training
