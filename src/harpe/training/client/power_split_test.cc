// Known powers, measured by a counter that steps every 100 ms at instants known to some
// milliseconds.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "harpe/training/client/reporter.h"

namespace harpe::training {
namespace {

constexpr auto kSplitForward = InstructionKind::kForward;
constexpr auto kSplitBackward = InstructionKind::kBackward;

struct Powers {
  double forward, backward, waiting;
};

/// A rank's iterations: waiting, forwards and backwards of 31 and 62 ms, and gaps.
class Rank {
 public:
  explicit Rank(Powers powers, unsigned seed) : powers_(powers), random_(seed) {}

  IterationRecord iteration(std::int64_t number, std::uint64_t version = 1) {
    IterationRecord record;
    record.iteration = number;
    record.version = version;
    record.span.begin = now();
    pass(0.09, powers_.waiting);
    for (int i = 0; i < 4; ++i) {
      run(record, kSplitForward, 0.031, powers_.forward);
      if (i % 2 == 1) pass(0.02, powers_.waiting);
      run(record, kSplitBackward, 0.062, powers_.backward);
    }
    pass(0.15 + 0.01 * uniform(), powers_.waiting);
    record.span.end = now();
    return record;
  }
  /// Adds an iteration: two fifths forward, two fifths backward, the rest waiting.
  IterationRecord short_iteration(std::int64_t number, double seconds) {
    IterationRecord record;
    record.iteration = number;
    record.version = 1;
    record.span.begin = now();
    run(record, kSplitForward, 0.4 * seconds, powers_.forward);
    run(record, kSplitBackward, 0.4 * seconds, powers_.backward);
    pass(0.2 * seconds, powers_.waiting);
    record.span.end = now();
    return record;
  }
  /// Returns the edges in the iteration and in the second before it. The newest edge is `late`, and
  /// is corrected when the next edge is seen.
  std::vector<CounterEdge> edges_around(const TimeSpan& span, Seconds late = {}) const {
    std::vector<CounterEdge> around = edges({span.begin + -PowerSplit::kBefore, span.end});
    if (!around.empty()) around.back().time = std::min(around.back().time + late, span.end);
    return around;
  }
  std::vector<CounterEdge> edges(const TimeSpan& span) const {
    std::vector<CounterEdge> inside;
    for (const CounterEdge& edge : edges_) {
      if (edge.time >= span.begin && edge.time <= span.end) inside.push_back(edge);
    }
    return inside;
  }

  static constexpr double kSigma = 0.003;

 private:
  double uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }
  Instant now() const { return Instant{} + Seconds{time_}; }
  void run(IterationRecord& record, InstructionKind kind, double seconds, double watts) {
    const Instant begin = now();
    pass(seconds * (1 + 0.01 * uniform()), watts);
    record.instructions.push_back({kind, 0, {begin, now()}, {1410}});
  }
  void pass(double seconds, double watts) {
    while (next_step_ <= time_ + seconds) {
      const double into = next_step_ - time_;
      const double off = std::normal_distribution<double>(0, kSigma)(random_);
      edges_.push_back({Instant{} + Seconds{next_step_ + off}, {kSigma}, {energy_ + into * watts}});
      next_step_ += 0.1;
    }
    time_ += seconds;
    energy_ += seconds * watts;
  }

  Powers powers_;
  std::mt19937 random_;
  double time_ = 0, energy_ = 0, next_step_ = 0.0371;
  std::vector<CounterEdge> edges_;
};

IterationReport unknown(const IterationRecord& record) {
  return make_report(record, {},
                     [](std::span<const TimeSpan>) { return std::vector<EnergyEstimate>(); });
}

TEST(PowerSplit, TellsKindsApartThatTheCounterSeesOnlyTogether) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int responses = 0, held = 0;
  double worst_sum = 0;
  // Enough rounds to exclude chance: the share that holds is 0.93, with a deviation of 0.006.
  for (int round = 0; round < 1000; ++round) {
    std::uniform_real_distribution<double> watts(250, 450);
    const double forward = watts(random), backward = watts(random);
    Rank rank({forward, backward, 84}, static_cast<unsigned>(random()));
    PowerSplit split;
    IterationRecord record;
    for (int i = 0; i < 6; ++i) {
      record = rank.iteration(i);
      split.add(record, rank.edges(record.span));
    }
    IterationReport report = unknown(record);
    split.refine(record, report);
    for (const InstructionTotals& totals : report.instructions) {
      const double truth = (totals.kind == kSplitForward ? forward : backward) * totals.time.value;
      ASSERT_FALSE(std::isnan(totals.energy.value));
      ++responses;
      held += std::abs(totals.energy.value - truth) <= totals.energy_error.value ? 1 : 0;
      worst_sum += std::abs(totals.energy.value / truth - 1);
    }
  }
  EXPECT_GE(held, 0.90 * responses) << "95 % intervals, " << responses << " of them";
  EXPECT_LT(worst_sum / responses, 0.05) << "mean relative error after five iterations";
}

TEST(PowerSplit, GetsBetterWithIterations) {
  Rank rank({400, 350, 84}, 11);
  PowerSplit split;
  std::vector<double> errors;
  for (int i = 0; i < 40; ++i) {
    const IterationRecord record = rank.iteration(i);
    split.add(record, rank.edges(record.span));
    IterationReport report = unknown(record);
    split.refine(record, report);
    errors.push_back(report.instructions[0].energy_error.value);
  }
  EXPECT_LT(errors[39], 0.5 * errors[5]);
}

/// Returns the energies of the newest of `iterations` iterations.
std::vector<InstructionTotals> short_totals(Rank rank, int iterations, double seconds,
                                            Seconds late) {
  PowerSplit split;
  IterationRecord record;
  for (int i = 0; i < iterations; ++i) {
    record = rank.short_iteration(i, seconds);
    split.add(record, rank.edges_around(record.span, late));
  }
  IterationReport report = unknown(record);
  split.refine(record, report);
  return report.instructions;
}

TEST(PowerSplit, AnEdgeThatMovedBackStillBeginsTheNextInterval) {
  // Nearly all intervals contain the border between two iterations of 120 ms.
  const auto still = short_totals(Rank({400, 350, 84}, 7), 100, 0.12, 0_s);
  const auto moved = short_totals(Rank({400, 350, 84}, 7), 100, 0.12, 0.0005_s);
  ASSERT_EQ(moved.size(), 2);
  for (std::size_t i = 0; i < 2; ++i) {
    // With half of the intervals, the error would be 1.4 times as large.
    EXPECT_LT(moved[i].energy_error.value, 1.2 * still[i].energy_error.value);
  }
}

TEST(PowerSplit, IntervalsLongerThanIterationsCount) {
  const auto totals = short_totals(Rank({400, 200, 84}, 7), 300, 0.067, 0_s);
  ASSERT_EQ(totals.size(), 2);
  for (const InstructionTotals& one : totals) {
    const double truth = (one.kind == kSplitForward ? 400 : 200) * one.time.value;
    EXPECT_NEAR(one.energy.value, truth, 0.1 * truth) << "of " << one.energy_error.value;
  }
}

TEST(PowerSplit, BetterEstimatesOfLongInstructionsAreLeftAlone) {
  Rank rank({400, 350, 84}, 5);
  PowerSplit split;
  IterationRecord record;
  for (int i = 0; i < 8; ++i) {
    record = rank.iteration(i);
    split.add(record, rank.edges(record.span));
  }
  IterationReport report = unknown(record);
  for (InstructionTotals& totals : report.instructions) {
    totals.energy = 33_J;
    totals.energy_error = 1e-9_J;
  }
  report.instructions[0].time = 4_s;  // 1 s each
  split.refine(record, report);
  EXPECT_EQ(report.instructions[0].energy, 33_J);
  EXPECT_NE(report.instructions[1].energy, 33_J) << "62 ms, between steps of 100 ms";
}

TEST(PowerSplit, SaysNothingOfTooLittleOrOfOtherAssignments) {
  Rank rank({400, 350, 84}, 5);
  PowerSplit split;
  IterationRecord record = rank.iteration(0);
  split.add(record, rank.edges(record.span));
  IterationReport report = unknown(record);
  split.refine(record, report);
  EXPECT_TRUE(std::isnan(report.instructions[0].energy.value)) << "clocks were still changing";
  for (int i = 1; i < 5; ++i) {
    record = rank.iteration(i);
    split.add(record, rank.edges(record.span));
  }
  record = rank.iteration(5, 2);
  split.add(record, rank.edges(record.span));
  report = unknown(record);
  split.refine(record, report);
  EXPECT_TRUE(std::isnan(report.instructions[0].energy.value)) << "other assignments";
}

TEST(PowerSplit, ThousandsOfClassesAreNotToldApart) {
  PowerSplit split;
  IterationRecord record;
  record.version = 1;
  split.add(record, {});
  for (int i = 0; i < 100; ++i) {
    const Instant begin = Instant{} + Seconds{0.01 * i};
    record.instructions.push_back({kSplitForward, 0, {begin, begin + Seconds{0.01}}, {300 + i}});
  }
  record.span = {Instant{}, Instant{} + Seconds{1}};
  std::vector<CounterEdge> edges;
  for (int i = 0; i <= 10; ++i)
    edges.push_back({Instant{} + Seconds{0.1 * i}, {0.001}, {30.0 * i}});
  split.add(record, edges);
  IterationReport report = unknown(record);
  split.refine(record, report);
  EXPECT_TRUE(std::isnan(report.instructions[0].energy.value));
}

}  // namespace
}  // namespace harpe::training
