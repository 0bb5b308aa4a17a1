#include "harpe/training/client/iteration_log.h"

#include <gtest/gtest.h>

#include <cmath>

namespace harpe::training {
namespace {

using Kind = RankEvent::Kind;
constexpr auto kForward = InstructionKind::kForward;
constexpr auto kBackward = InstructionKind::kBackward;

Instant at(double seconds) {
  return Instant{} + Seconds{seconds};
}

class Log : public ::testing::Test {
 protected:
  std::optional<IterationRecord> iteration(double when, std::int64_t number,
                                           std::uint64_t version = 1) {
    return log_.add(
        {.at = at(when), .number = number, .version = version, .kind = Kind::kIterationBegin},
        lost_);
  }
  void run(InstructionKind kind, double begin, double end, int chunk = 0) {
    log_.add({.at = at(begin),
              .kind = Kind::kInstructionBegin,
              .instruction = kind,
              .chunk = static_cast<std::uint16_t>(chunk)},
             lost_);
    log_.add({.at = at(end), .kind = Kind::kInstructionEnd}, lost_);
  }
  void begin_only(double when) {
    log_.add({.at = at(when), .kind = Kind::kInstructionBegin}, lost_);
  }
  void end_only(double when) { log_.add({.at = at(when), .kind = Kind::kInstructionEnd}, lost_); }

  IterationLog log_;
  std::uint64_t lost_ = 0;
};

/// Returns energies at 100 W, with an error of 3 J for each span.
std::vector<EnergyEstimate> constant_power(std::span<const TimeSpan> spans) {
  std::vector<EnergyEstimate> energies;
  for (const TimeSpan& span : spans) {
    const Seconds time = span.end - span.begin;
    energies.push_back(
        {.energy = 100_W * time, .error = 3_J, .time = time, .source = EnergySource::kCounter});
  }
  return energies;
}

TEST_F(Log, AnIterationGoesToTheBeginOfTheNext) {
  EXPECT_FALSE(iteration(1, 12, 3));
  run(kForward, 1.5, 2);
  run(kBackward, 2.5, 4);
  run(kForward, 4, 4.5, 1);
  run(kForward, 5, 5.5);
  const auto ended = iteration(7, 13);
  ASSERT_TRUE(ended);
  EXPECT_FALSE(ended->damaged);
  const IterationReport report = make_report(*ended, {1, 2, 3}, constant_power);
  EXPECT_EQ(report.coordinates, (RankCoordinates{1, 2, 3}));
  EXPECT_EQ(report.iteration, 12);
  EXPECT_EQ(report.version, 3);
  EXPECT_DOUBLE_EQ(report.time.value, 6);
  EXPECT_DOUBLE_EQ(report.energy.value, 600);
  EXPECT_DOUBLE_EQ(report.energy_error.value, 3);
  ASSERT_EQ(report.instructions.size(), 3);
  const InstructionTotals& forward = report.instructions[0];
  EXPECT_EQ(forward.kind, kForward);
  EXPECT_EQ(forward.count, 2);
  EXPECT_DOUBLE_EQ(forward.time.value, 1);
  EXPECT_DOUBLE_EQ(forward.energy.value, 100);
  EXPECT_DOUBLE_EQ(forward.energy_error.value, std::sqrt(18));
  EXPECT_EQ(report.instructions[1].chunk, 1);
  EXPECT_EQ(report.instructions[2].kind, kBackward);
  EXPECT_DOUBLE_EQ(report.instructions[2].energy.value, 150);
}

TEST_F(Log, TheLastIterationEndsWhereTrainingSaysSoOrWithItsInstructions) {
  iteration(0, 0);
  run(kForward, 1, 2);
  log_.add({.at = at(3), .kind = Kind::kIterationEnd}, 0);
  const auto record = log_.finish();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->span.end, at(3));
  EXPECT_FALSE(log_.finish());
  iteration(4, 1);
  run(kForward, 5, 6);
  EXPECT_EQ(log_.finish()->span.end, at(6));
  iteration(7, 2);
  EXPECT_FALSE(log_.finish()) << "nothing ran";
}

TEST_F(Log, WhatDoesNotFitTogetherIsDamaged) {
  iteration(0, 0);
  begin_only(1);
  begin_only(2);
  end_only(3);
  EXPECT_TRUE(iteration(4, 1)->damaged) << "overlapping";
  run(kForward, 5, 6);
  end_only(7);
  EXPECT_TRUE(iteration(8, 2)->damaged) << "an end without a begin";
  run(kForward, 9, 10);
  begin_only(11);
  EXPECT_TRUE(iteration(12, 3)->damaged) << "still running";
  EXPECT_TRUE(iteration(13, 4)->damaged) << "empty";
  run(kForward, 14, 15);
  lost_ = 1;
  EXPECT_TRUE(iteration(16, 5)->damaged) << "events were lost";
  run(kForward, 17, 18);
  EXPECT_TRUE(iteration(19, 6)->damaged) << "the loss may lie in this one, too";
  run(kForward, 20, 21);
  EXPECT_FALSE(iteration(22, 7)->damaged);
}

TEST_F(Log, TimesOfTheDeviceReplaceThoseOfTheCalls) {
  iteration(0, 0);
  run(kForward, 1, 1.1);
  run(kBackward, 1.1, 1.2);
  auto ended = iteration(4, 1);
  ASSERT_TRUE(ended);
  const std::vector<TimeSpan> one = {{at(1), at(2)}};
  EXPECT_FALSE(IterationLog::replace_times(*ended, one)) << "one of two is missing";
  const std::vector<TimeSpan> reversed = {{at(1), at(2)}, {at(3), at(2)}};
  EXPECT_FALSE(IterationLog::replace_times(*ended, reversed));
  const std::vector<TimeSpan> device = {{at(1), at(2)}, {at(2), at(3.5)}};
  EXPECT_TRUE(IterationLog::replace_times(*ended, device));
  const IterationReport report = make_report(*ended, {}, constant_power);
  EXPECT_DOUBLE_EQ(report.instructions[1].time.value, 1.5);
}

TEST_F(Log, EnergyThatIsNotKnownIsNotANumber) {
  iteration(0, 0);
  run(kForward, 1, 2);
  run(kBackward, 2, 3);
  const auto ended = iteration(4, 1);
  const auto none = [](std::span<const TimeSpan>) { return std::vector<EnergyEstimate>(); };
  const IterationReport without = make_report(*ended, {}, none);
  EXPECT_TRUE(std::isnan(without.energy.value));
  EXPECT_TRUE(std::isnan(without.instructions[0].energy.value));
  EXPECT_EQ(without.energy_error.value, 0);
  // A gap in the samples of one instruction invalidates its energy and the energy of the iteration.
  const auto partly = [](std::span<const TimeSpan> spans) {
    auto energies = constant_power(spans);
    energies[0].unobserved = energies[0].time;
    energies.back().missing = 1_s;
    return energies;
  };
  const IterationReport holed = make_report(*ended, {}, partly);
  EXPECT_TRUE(std::isnan(holed.instructions[0].energy.value));
  EXPECT_DOUBLE_EQ(holed.instructions[1].energy.value, 100);
  EXPECT_TRUE(std::isnan(holed.energy.value));
}

}  // namespace
}  // namespace harpe::training
