// Pacing plans, compared with the best of every set of pauses. The linear programme of each set is
// solved by another method.

#include "harpe/carbon/pacing/pacing_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace harpe::carbon {
namespace {

/// A frontier: from 1 s and 300 J to 1.5 s and 200 J.
PaceCurve planned_curve() {
  return PaceCurve::make({{{1.0}, {300}},
                          {{1.05}, {270}},
                          {{1.1}, {250}},
                          {{1.2}, {225}},
                          {{1.3}, {210}},
                          {{1.5}, {200}}})
      .take();
}

double planned_uniform(std::mt19937_64& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random() % 1'000'001) / 1e6;
}

std::vector<PacingInterval> some_intervals(std::mt19937_64& random, int count) {
  std::vector<PacingInterval> intervals;
  for (int i = 0; i < count; ++i) intervals.push_back({{3600}, planned_uniform(random, 50, 400)});
  return intervals;
}

double cost_of(const PaceCurve& curve, const PacingJob& job, const PacingPlan& plan,
               const std::vector<PacingInterval>& intervals) {
  double cost = 0;
  for (std::size_t i = 0; i < plan.intervals.size(); ++i) {
    const IntervalUse use = use_of(curve, job, plan.intervals[i], intervals[i].duration);
    cost += intervals[i].weight * use.energy.value + job.held_cost * use.time.value;
  }
  return cost;
}

double work_of(const PaceCurve& curve, const PacingJob& job, const PacingPlan& plan,
               const std::vector<PacingInterval>& intervals) {
  double work = 0;
  for (std::size_t i = 0; i < plan.intervals.size(); ++i) {
    work += use_of(curve, job, plan.intervals[i], intervals[i].duration).work;
  }
  return work;
}

/// Returns the cost if the intervals of `set` run, up to the last of them. Speed is bought segment
/// by segment, the cheapest first. Interval `part` may run for only a part of its time: its
/// segments begin at speed 0.
double cost_of_set(const PaceCurve& curve, const PacingJob& job,
                   const std::vector<PacingInterval>& intervals, unsigned set, int part) {
  struct Segment {
    double price, work;
  };
  std::vector<Segment> segments;
  double cost = 0, work = 0;
  bool was_running = true;
  const int last = static_cast<int>(std::bit_width(set)) - 1;
  for (int i = 0; i <= last; ++i) {
    const PacingInterval& interval = intervals[static_cast<std::size_t>(i)];
    const bool runs = (set >> i & 1) != 0;
    double gone = 0;
    if (runs != was_running) gone = (runs ? job.pause.start : job.pause.stop).value;
    was_running = runs;
    const double left = interval.duration.value - gone;
    const double idle = interval.weight * job.pause.idle_power.value + job.held_cost;
    cost += (interval.weight * curve.slowest().power.value + job.held_cost) * gone;
    if (!runs) {
      cost += idle * left;
      continue;
    }
    // Points (speed, cost per second). Their lower hull gives the segments.
    std::vector<std::pair<double, double>> points;
    if (i == part) points.emplace_back(0, i == last ? 0 : idle);
    for (const CurvePace& pace : curve.paces()) {
      points.emplace_back(pace.speed, interval.weight * pace.power.value + job.held_cost);
    }
    cost += points.front().second * left;
    work += points.front().first * left;
    for (std::size_t k = 0; k + 1 < points.size();) {
      std::size_t next = k + 1;
      const auto price = [&](std::size_t to) {
        return (points[to].second - points[k].second) / (points[to].first - points[k].first);
      };
      for (std::size_t to = k + 2; to < points.size(); ++to) {
        if (price(to) < price(next)) next = to;
      }
      segments.push_back({price(next), (points[next].first - points[k].first) * left});
      k = next;
    }
  }
  std::ranges::sort(segments, {}, &Segment::price);
  for (const Segment& segment : segments) {
    const double bought = std::clamp(job.work - work, 0.0, segment.work);
    cost += segment.price * bought;
    work += bought;
  }
  return work < job.work - 1e-6 ? std::numeric_limits<double>::infinity() : cost;
}

/// Returns the cost of a set with the best `part`: the last interval, one beside a pause, or none.
double best_of_set(const PaceCurve& curve, const PacingJob& job,
                   const std::vector<PacingInterval>& intervals, unsigned set) {
  double best = cost_of_set(curve, job, intervals, set, -1);
  const int last = static_cast<int>(std::bit_width(set)) - 1;
  for (int i = 0; i <= last; ++i) {
    const bool beside =
        i == last || (set >> (i + 1) & 1) == 0 || (i > 0 && (set >> (i - 1) & 1) == 0);
    if ((set >> i & 1) == 0 || !beside) continue;
    best = std::min(best, cost_of_set(curve, job, intervals, set, i));
  }
  return best;
}

bool keeps_dwell(unsigned set, int count, int dwell) {
  int since = dwell;  // the job has run for long
  bool was_running = true;
  for (int i = 0; i < count; ++i) {
    const bool runs = (set >> i & 1) != 0;
    if (runs != was_running) {
      if (since < dwell) return false;
      since = 0;
    }
    was_running = runs;
    ++since;
  }
  return true;
}

TEST(PaceCurve, KeepsTheLowerHullAlone) {
  const PaceCurve curve = planned_curve();
  ASSERT_GE(curve.paces().size(), 4U);
  EXPECT_EQ(curve.fastest().speed, 1);
  for (std::size_t i = 0; i + 2 < curve.paces().size(); ++i) {
    EXPECT_LT(curve.slope(i), curve.slope(i + 1));
  }
  // A pace that takes more time and power than a mixture of two other paces.
  const PaceCurve without = PaceCurve::make({{{1}, {300}}, {{1.4}, {400}}, {{2}, {300}}}).take();
  EXPECT_EQ(without.paces().size(), 2U);
  EXPECT_EQ(without.at_least(0.4), 0U);
  EXPECT_EQ(without.at_least(0.7), 1U);
  EXPECT_FALSE(PaceCurve::make({}).ok());
  EXPECT_FALSE(PaceCurve::make({{{0}, {1}}}).ok());
  EXPECT_FALSE(PaceCurve::make({{{1}, {1}}}, {-1}).ok());
}

TEST(PacingPlan, WithoutPausesIsTheLinearProgrammesOptimum) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const PaceCurve curve = planned_curve();
  constexpr int kCases = 200;
  int exact = 0;
  double gaps = 0;
  for (int i = 0; i < kCases; ++i) {
    const int count = 1 + static_cast<int>(random() % 20);
    const auto intervals = some_intervals(random, count);
    // The slowest pace takes 1.5 times as long. With less time, there is a choice of paces.
    const PacingJob job{.work = 3600.0 * count / planned_uniform(random, 1.0, 1.49)};
    const PacingPlan plan = plan_pacing(curve, job, {}, intervals);
    ASSERT_TRUE(plan.finishes);
    double optimum = std::numeric_limits<double>::infinity();
    for (int end = 1; end <= count; ++end) {
      const unsigned set = (1U << end) - 1;
      optimum = std::min(optimum, best_of_set(curve, job, intervals, set));
    }
    EXPECT_GE(plan.cost, optimum * (1 - 1e-9));
    EXPECT_LE(plan.cost, optimum * 1.01);
    exact += plan.cost <= optimum * (1 + 1e-9) ? 1 : 0;
    EXPECT_LE(plan.lower_bound, optimum * (1 + 1e-9));
    gaps += 1 - plan.lower_bound / optimum;
    EXPECT_NEAR(cost_of(curve, job, plan, intervals), plan.cost, 1e-9 * optimum);
    EXPECT_NEAR(work_of(curve, job, plan, intervals), job.work, 1e-6 * job.work);
  }
  // No price alone decides where the plan ends.
  EXPECT_GE(exact, 190);
  // In 30,000 cases the bound was 0.13 % below the optimum on average, in one (4 hours) 11 %.
  EXPECT_LE(gaps / kCases, 0.01);
}

class PausesOf : public testing::TestWithParam<unsigned> {};

// The fixed seed: an interval runs in part, for the least time of a run, before a pause.
INSTANTIATE_TEST_SUITE_P(Seeds, PausesOf, testing::Values(4025679208U, std::random_device{}()),
                         [](const auto& seed) { return seed.index == 0 ? "Fixed" : "Random"; });

TEST_P(PausesOf, PlansAreNearTheBestOfAllSetsAndTheirBoundHolds) {
  const unsigned seed = GetParam();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const PaceCurve curve = planned_curve();
  double sum = 0;
  constexpr int kCases = 60, kCount = 10;
  for (int i = 0; i < kCases; ++i) {
    const auto intervals = some_intervals(random, kCount);
    const int dwell = 1 + static_cast<int>(random() % 3);
    const PacingJob job{.work = 3600.0 * kCount / planned_uniform(random, 1.05, 3),
                        .pause = {.allowed = true,
                                  .idle_power = {planned_uniform(random, 0, 80)},
                                  .stop = {planned_uniform(random, 0, 600)},
                                  .start = {planned_uniform(random, 0, 900)},
                                  .min_dwell = {3600.0 * dwell}},
                        .held_cost = i % 2 == 0 ? 0 : planned_uniform(random, 0, 5000)};
    const PacingState state{.since = Seconds{1e6}, .has_begun = true};
    const PacingPlan plan = plan_pacing(curve, job, state, intervals);
    ASSERT_TRUE(plan.finishes);
    double optimum = std::numeric_limits<double>::infinity();
    for (unsigned set = 1; set < 1U << kCount; ++set) {
      if (keeps_dwell(set, kCount, dwell)) {
        optimum = std::min(optimum, best_of_set(curve, job, intervals, set));
      }
    }
    EXPECT_LE(plan.lower_bound, optimum * (1 + 1e-9));
    EXPECT_NEAR(cost_of(curve, job, plan, intervals), plan.cost, 1e-9 * plan.cost);
    EXPECT_NEAR(work_of(curve, job, plan, intervals), job.work, 1e-6 * job.work);
    // Of 9,000 such plans one was 16 % above the optimum, and none more.
    EXPECT_LE(plan.cost, optimum * 1.3);
    sum += plan.cost / optimum;
  }
  // Hours that do not depend on earlier hours are the hardest case.
  EXPECT_LE(sum / kCases, 1.01);
}

TEST(PacingPlan, KeepsTheLeastTimesOfPausesAndRuns) {
  std::mt19937_64 random(5);
  const PaceCurve curve = planned_curve();
  const auto intervals = some_intervals(random, 60);
  const PacingJob job{.work = 3600.0 * 25,
                      .pause = {.allowed = true, .min_dwell = Seconds{3 * 3600.0}}};
  PacingState state{.is_paused = true, .since = Seconds{3600}, .has_begun = true};
  const PacingPlan plan = plan_pacing(curve, job, state, intervals);
  ASSERT_TRUE(plan.finishes);
  int since = 1;
  bool was_paused = true;
  int changes = 0;
  for (const PacedInterval& paced : plan.intervals) {
    if (paced.runs == was_paused) {
      EXPECT_GE(since, 3);
      since = 0;
      ++changes;
    }
    was_paused = !paced.runs;
    ++since;
    state = after(state, paced, {3600});
    EXPECT_EQ(state.is_paused, was_paused);
  }
  EXPECT_GT(changes, 2);
}

TEST(PacingPlan, AFractionOfAnIntervalUpToTheDeadlineForbidsNoPause) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const PaceCurve curve = planned_curve();
  for (int round = 0; round < 10; ++round) {
    const PacingJob job{.work = planned_uniform(random, 4, 10) * 3600,
                        .pause = {.allowed = true, .stop = {60}, .min_dwell = {3600}}};
    std::vector<PacingInterval> intervals = some_intervals(random, 20);
    const PacingPlan whole = plan_pacing(curve, job, {.has_begun = true}, intervals);
    intervals.push_back({{planned_uniform(random, 1, 900)}, 400});
    const PacingPlan more = plan_pacing(curve, job, {.has_begun = true}, intervals);
    EXPECT_LE(more.cost, whole.cost * 1.01);
  }
}

TEST(PacingPlan, WhereTheDeadlineCannotBeMetItRunsAtFullSpeed) {
  const PaceCurve curve = planned_curve();
  const std::vector<PacingInterval> intervals(3, {{3600}, 100});
  const PacingPlan plan = plan_pacing(curve, {.work = 4 * 3600.0}, {}, intervals);
  EXPECT_FALSE(plan.finishes);
  ASSERT_EQ(plan.intervals.size(), 3U);
  for (const PacedInterval& paced : plan.intervals) {
    EXPECT_TRUE(paced.runs);
    EXPECT_EQ(curve.paces()[paced.pace].speed, 1);
  }
  EXPECT_TRUE(plan_pacing(curve, {.work = 0}, {}, intervals).finishes);
  EXPECT_FALSE(plan_pacing(curve, {.work = 1}, {}, {}).finishes);
}

TEST(PacingPlan, EndsEarlyAtTheSlowestPaceWhereThereIsTime) {
  const PaceCurve curve = planned_curve();
  const std::vector<PacingInterval> intervals(10, {{3600}, 100});
  const PacingPlan plan = plan_pacing(curve, {.work = 3600}, {}, intervals);
  ASSERT_TRUE(plan.finishes);
  ASSERT_EQ(plan.intervals.size(), 2U);
  EXPECT_TRUE(plan.intervals[1].ends);
  EXPECT_NEAR(plan.intervals[1].run.value, 1800, 1);
  // The held cost is per second: a faster pace pays less of it.
  const PacingPlan held = plan_pacing(curve, {.work = 3600, .held_cost = 1e9}, {}, intervals);
  EXPECT_EQ(held.intervals.size(), 1U);
}

TEST(PacingPlan, ANegativeWeightIsSpentIn) {
  const PaceCurve curve = planned_curve();
  const std::vector<PacingInterval> intervals = {{{3600}, 100}, {{3600}, -50}, {{3600}, 100}};
  const PacingPlan plan = plan_pacing(curve, {.work = 2.5 * 3600}, {}, intervals);
  ASSERT_TRUE(plan.finishes);
  EXPECT_EQ(curve.paces()[plan.intervals[1].pace].speed, 1);
}

}  // namespace
}  // namespace harpe::carbon
