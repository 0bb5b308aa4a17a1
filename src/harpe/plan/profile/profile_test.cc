#include "harpe/plan/profile/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

namespace harpe::plan {
namespace {

using testing::ElementsAre;

OperatingPoint point(int clock, double time, double energy) {
  return {{clock}, {time}, {energy}};
}

void expect_equal(const Profile& a, const Profile& b) {
  ASSERT_EQ(a.entries().size(), b.entries().size());
  EXPECT_EQ(a.stages(), b.stages());
  EXPECT_EQ(a.has_chunks(), b.has_chunks());
  for (std::size_t i = 0; i < a.entries().size(); ++i) {
    EXPECT_EQ(a.entries()[i].stage, b.entries()[i].stage);
    EXPECT_EQ(a.entries()[i].chunk, b.entries()[i].chunk);
    EXPECT_EQ(a.entries()[i].kind, b.entries()[i].kind);
    EXPECT_EQ(a.entries()[i].points, b.entries()[i].points);
  }
}

TEST(Profile, AssignmentsEntriesByStageChunkAndKindAndPointsByClock) {
  const Profile profile({{2, 0, InstructionKind::kForward, {point(1410, 1, 1)}},
                         {0, 1, InstructionKind::kForward, {point(1410, 1, 1)}},
                         {0, 0, InstructionKind::kBackward, {point(1410, 1, 1)}},
                         {0, 0, InstructionKind::kForward, {point(1410, 1, 2), point(900, 2, 1)}}},
                        true);
  ASSERT_EQ(profile.entries().size(), 4u);
  EXPECT_EQ(profile.entries()[0].kind, InstructionKind::kForward);
  EXPECT_THAT(profile.entries()[0].points, ElementsAre(point(900, 2, 1), point(1410, 1, 2)));
  EXPECT_EQ(profile.entries()[1].kind, InstructionKind::kBackward);
  EXPECT_EQ(profile.entries()[2].chunk, 1);
  EXPECT_EQ(profile.entries()[3].stage, 2);
  EXPECT_EQ(profile.stages(), 3);
}

TEST(Profile, WithoutChunksHoldsForEveryChunkOfItsStage) {
  const std::vector<InstructionProfile> entries = {
      {0, 0, InstructionKind::kForward, {point(1410, 1, 2)}}};
  EXPECT_EQ(Profile(entries).points(0, 7, InstructionKind::kForward).size(), 1u);
  EXPECT_TRUE(Profile(entries, true).points(0, 7, InstructionKind::kForward).empty());
  EXPECT_EQ(Profile(entries, true).points(0, 0, InstructionKind::kForward).size(), 1u);
}

TEST(Profile, LacksWhatWasNotMeasured) {
  const Profile profile({{1, 0, InstructionKind::kForward, {point(1410, 1, 2)}}});
  EXPECT_TRUE(profile.points(1, 0, InstructionKind::kBackward).empty());
  EXPECT_TRUE(profile.points(0, 0, InstructionKind::kForward).empty());
  EXPECT_TRUE(profile.points(2, 0, InstructionKind::kForward).empty());
  EXPECT_TRUE(Profile().points(0, 0, InstructionKind::kForward).empty());
  EXPECT_EQ(Profile().stages(), 0);
}

TEST(ParetoSet, DropsWhatIsBeatenAndWhatOnlyTies) {
  const std::vector<OperatingPoint> points = {point(1410, 1.0, 0), point(1395, 1.0, 0),
                                              point(1380, 2.0, 0), point(1365, 3.0, 0),
                                              point(1350, 3.0, 0)};
  EXPECT_THAT(pareto_set(points, std::vector<double>{5, 4, 4, 3, 2}), ElementsAre(1, 4));
  EXPECT_THAT(pareto_set(points, std::vector<double>{1, 1, 1, 1, 1}), ElementsAre(0));
  EXPECT_TRUE(pareto_set({}, {}).empty());
}

/// Returns the indices of points that no other point beats, found by comparing all pairs.
std::vector<int> brute_force_pareto(const std::vector<OperatingPoint>& points,
                                    const std::vector<double>& cost) {
  std::vector<int> kept;
  for (std::size_t i = 0; i < points.size(); ++i) {
    bool beaten = false;
    for (std::size_t j = 0; j < points.size(); ++j) {
      const bool no_worse = points[j].time <= points[i].time && cost[j] <= cost[i];
      const bool same = points[j].time == points[i].time && cost[j] == cost[i];
      beaten = beaten || (no_worse && (!same || j < i));
    }
    if (!beaten) kept.push_back(static_cast<int>(i));
  }
  std::sort(kept.begin(), kept.end(), [&](int a, int b) {
    return points[static_cast<std::size_t>(a)].time < points[static_cast<std::size_t>(b)].time;
  });
  return kept;
}

TEST(ParetoSet, AgreesWithBruteForceAndDoesNotDependOnTheUnits) {
  for (unsigned seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    // Few distinct values give many ties; many give long Pareto sets.
    const int distinct = seed % 2 == 0 ? 6 : 1000;
    std::uniform_int_distribution<int> draw(0, distinct - 1);
    std::vector<OperatingPoint> points(random() % 40), scaled;
    std::vector<double> cost, scaled_cost;
    for (OperatingPoint& p : points) {
      p = point(0, 0.01 * (1 + draw(random)), 0);
      cost.push_back(0.1 * draw(random) - 0.2 * distinct / 6);
      scaled.push_back(point(0, p.time.value * 0x1p20, 0));
      scaled_cost.push_back(cost.back() * 0x1p-13);
    }
    const std::vector<int> pareto = pareto_set(points, cost);
    EXPECT_EQ(pareto, brute_force_pareto(points, cost));
    EXPECT_EQ(pareto, pareto_set(scaled, scaled_cost));
    for (std::size_t i = 1; i < pareto.size(); ++i) {
      const auto a = static_cast<std::size_t>(pareto[i - 1]),
                 b = static_cast<std::size_t>(pareto[i]);
      EXPECT_LT(points[a].time, points[b].time);
      EXPECT_GT(cost[a], cost[b]);
    }
  }
}

TEST(ProfileCsv, IsReadBackWithoutLoss) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> exponent(-8, 5);
    const bool has_chunks = seed % 2 == 0;
    std::vector<InstructionProfile> entries;
    for (int stage = 0; stage < 3; ++stage) {
      for (int chunk = 0; chunk < (has_chunks ? 2 : 1); ++chunk) {
        for (const auto kind : {InstructionKind::kForward, InstructionKind::kBackward,
                                InstructionKind::kRecv, InstructionKind::kOptimizer}) {
          InstructionProfile entry{stage, chunk, kind, {}};
          const int points = is_fixed_time(kind) ? 1 : 1 + static_cast<int>(random() % 5);
          for (int i = 0; i < points; ++i) {
            entry.points.push_back(point(is_fixed_time(kind) ? 0 : 210 + 15 * i,
                                         std::pow(10, exponent(random)),
                                         std::pow(10, exponent(random))));
          }
          entries.push_back(entry);
        }
      }
    }
    const Profile profile(entries, has_chunks);
    const auto read = parse_profile(profile_csv(profile, "seeded\nby \"hand\""), "p.csv");
    ASSERT_TRUE(read.ok()) << read.error().text();
    expect_equal(profile, *read);
  }
}

TEST(ProfileCsv, ACommentCannotBecomeARow) {
  const Profile profile({{0, 0, InstructionKind::kForward, {point(1410, 0.5, 2)}}});
  EXPECT_EQ(profile_csv(profile, std::string_view("one\r\ntwo\0three", 14)),
            "# one \n# two three\nstage,instruction,frequency,time,energy\n0,forward,1410,0.5,2\n");
}

TEST(EffectiveEnergy, IsEnergyBeyondWaiting) {
  EXPECT_DOUBLE_EQ(effective_energy(point(1410, 2, 500), {80}).value, 340);
}

OperatingPoint point(int clock, double time, double energy, const Knobs& knobs) {
  return {{clock}, {time}, {energy}, knobs};
}

const Knobs kSlowMemory{.memory_clock = {810}};
const Knobs kLabelled{.label = *Label::of("sm12")};

TEST(Profile, OrdersPointsOfOneClockByKnobs) {
  const Profile profile({{0,
                          0,
                          InstructionKind::kForward,
                          {point(1410, 1, 3, kSlowMemory), point(1410, 1, 2, kLabelled),
                           point(900, 2, 1, kSlowMemory), point(1410, 1, 1)}}});
  EXPECT_THAT(profile.entries()[0].points,
              ElementsAre(point(900, 2, 1, kSlowMemory), point(1410, 1, 1),
                          point(1410, 1, 2, kLabelled), point(1410, 1, 3, kSlowMemory)));
}

TEST(ProfileCsv, HasColumnsOfThoseKnobsThatSomePointHas) {
  const Profile profile({{0,
                          0,
                          InstructionKind::kForward,
                          {point(1410, 1, 3, {.power_limit = {250.5}}),
                           point(1410, 1, 2, kLabelled), point(900, 2, 1)}}});
  EXPECT_EQ(profile_csv(profile),
            "stage,instruction,frequency,power_limit,label,time,energy\n"
            "0,forward,900,,,2,1\n0,forward,1410,,sm12,1,2\n0,forward,1410,250.5,,1,3\n");
  const auto again = parse_profile(profile_csv(profile), "again.csv");
  ASSERT_TRUE(again.ok());
  expect_equal(profile, *again);
}

TEST(FindPoint, TellsPointsOfOneClockApart) {
  const std::vector<OperatingPoint> points = {point(900, 2, 1), point(900, 2, 2, kLabelled),
                                              point(1410, 1, 3, kLabelled)};
  EXPECT_EQ(find_point(points, {{900}, kLabelled}), &points[1]);
  EXPECT_EQ(find_point(points, {{1410}, kLabelled}), &points[2]);
  EXPECT_EQ(find_point(points, {{1410}, {}}), nullptr);
  EXPECT_EQ(find_point(points, {{900}, kSlowMemory}), nullptr);
}

TEST(NearestPoints, KeepToTheKnobs) {
  const std::vector<OperatingPoint> points = {point(900, 2, 1), point(900, 2, 2, kLabelled),
                                              point(1200, 1.5, 2, kSlowMemory), point(1410, 1, 3),
                                              point(1410, 1, 3, kLabelled)};
  const NearestPoints between = nearest_points(points, {{1200}, kLabelled});
  EXPECT_EQ(between.below, &points[1]);
  EXPECT_EQ(between.above, &points[4]);
  EXPECT_EQ(nearest_points(points, {{900}, {}}).below, &points[0]);
  EXPECT_EQ(nearest_points(points, {{900}, {}}).above, &points[0]);
  EXPECT_EQ(nearest_points(points, {{1500}, {}}).below, &points[3]);
  EXPECT_EQ(nearest_points(points, {{1500}, {}}).above, nullptr);
  EXPECT_EQ(nearest_points(points, {{800}, kSlowMemory}).below, nullptr);
  EXPECT_EQ(nearest_points(points, {{800}, kSlowMemory}).above, &points[2]);
}

TEST(AllMaxPoint, HasNoKnobsWhereThatWasMeasuredElseTheFastest) {
  const std::vector<OperatingPoint> plain = {point(900, 0.5, 1), point(1410, 2, 3),
                                             point(1410, 1, 3, kLabelled)};
  EXPECT_EQ(&all_max_point(plain), &plain[1]);
  const std::vector<OperatingPoint> none = {point(900, 0.5, 1), point(1410, 1.5, 3, kLabelled),
                                            point(1410, 1, 3, kSlowMemory)};
  EXPECT_EQ(&all_max_point(none), &none[2]);
}

}  // namespace
}  // namespace harpe::plan
