#include "harpe/zeus/batch_size/batch_size_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "harpe/base/json_text.h"
#include "harpe/zeus/batch_size/batch_size_choice.h"

namespace harpe::zeus {
namespace {

using Kind = Trial::Kind;
using Reason = TrialVerdict::Reason;
using TrialStatus = Trial::Status;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RecurringJob job_of(std::vector<int> sizes, int default_size) {
  RecurringJob job;
  job.id = job.id_prefix = "job";
  job.batch_sizes = std::move(sizes);
  job.default_batch_size = default_size;
  job.eta = 1;  // costs are energies
  job.max_power = Watts{100};
  job.gpus = 1;
  job.gpu_model = "A40";
  return job;
}

/// Trainings with their own time.
struct Trainings {
  explicit Trainings(const RecurringJob& job, std::int64_t seed = 1)
      : optimizer(job, {.seed = seed}) {}

  Trial begin() {
    const auto given = optimizer.next(now);
    EXPECT_TRUE(given.ok()) << given.error().text();
    return given.ok() ? given->trial : Trial{};
  }
  Result<TrialVerdict> report(const Trial& trial, double cost, double metric, int epoch = 1) {
    now += Seconds{1};
    return optimizer.report({.trial = trial.number,
                             .batch_size = trial.batch_size,
                             .epoch = epoch,
                             .time = Seconds{1.0 * epoch},
                             .energy = Joules{cost},
                             .metric = metric},
                            now);
  }
  /// Runs a whole recurrence that reaches its target at its cost in `costs`.
  int recur(const std::map<int, double>& costs) {
    const Trial trial = begin();
    EXPECT_TRUE(report(trial, costs.at(trial.batch_size), 1)->stop);
    return trial.batch_size;
  }

  BatchSizeOptimizer optimizer;
  Seconds now{1000};
};

TEST(BatchSizeOptimizer, BeginsWithTheDefaultAndSettlesOnTheCheapest) {
  Trainings trainings(job_of({8, 16, 32}, 32));
  const std::map<int, double> costs{{8, 30}, {16, 10}, {32, 20}};
  EXPECT_EQ(trainings.recur(costs), 32);
  for (int i = 0; i < 20; ++i) trainings.recur(costs);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(trainings.recur(costs), 16);
}

TEST(BatchSizeOptimizer, EndsATrialThatReachesItsTarget) {
  Trainings trainings(job_of({8}, 8));
  const Trial trial = trainings.begin();
  EXPECT_FALSE(trainings.report(trial, 5, 0.1, 1)->stop);
  const auto verdict = trainings.report(trial, 10, 0.5, 2);
  EXPECT_TRUE(verdict->stop);
  EXPECT_TRUE(verdict->converged);
  EXPECT_EQ(verdict->reason, Reason::kReached);
  ASSERT_NE(trainings.optimizer.cheapest(), nullptr);
  EXPECT_EQ(trainings.optimizer.cheapest()->energy, Joules{10});
}

TEST(BatchSizeOptimizer, EndsATrialBeyondTheBound) {
  Trainings trainings(job_of({8, 16}, 16));
  EXPECT_TRUE(trainings.report(trainings.begin(), 10, 1)->converged);
  const Trial trial = trainings.begin();
  EXPECT_FALSE(trainings.report(trial, 20, 0, 1)->stop);
  const auto verdict = trainings.report(trial, 20.1, 1, 2);
  EXPECT_EQ(verdict->reason, Reason::kTooCostly);
  EXPECT_FALSE(verdict->converged);
  EXPECT_EQ(trainings.optimizer.find(trial.number)->status, TrialStatus::kSucceeded);
}

TEST(BatchSizeOptimizer, WithoutBetaNothingIsTooCostly) {
  RecurringJob job = job_of({8, 16}, 16);
  job.beta.reset();
  Trainings trainings(job);
  trainings.report(trainings.begin(), 10, 1).value();
  EXPECT_TRUE(trainings.report(trainings.begin(), 390, 1)->converged);
}

TEST(BatchSizeOptimizer, EndsATrialAtItsLastEpoch) {
  RecurringJob job = job_of({8}, 8);
  job.max_epochs = 2;
  Trainings trainings(job);
  const Trial trial = trainings.begin();
  EXPECT_FALSE(trainings.report(trial, 1, 0, 1)->stop);
  const auto verdict = trainings.report(trial, 2, 0, 2);
  EXPECT_EQ(verdict->reason, Reason::kMaxEpochs);
  EXPECT_FALSE(verdict->converged);
}

TEST(BatchSizeOptimizer, WhatDidNotConvergeBoundsNoOther) {
  RecurringJob job = job_of({8, 16}, 16);
  job.max_epochs = 1;
  Trainings trainings(job);
  trainings.report(trainings.begin(), 100, 1).value();
  EXPECT_FALSE(trainings.report(trainings.begin(), 1, 0)->converged);  // cheap because it gave up
  EXPECT_EQ(trainings.report(trainings.begin(), 150, 1)->bound, 200);
}

TEST(BatchSizeOptimizer, AMetricThatIsNoNumberReachesNothing) {
  for (const bool higher : {true, false}) {
    RecurringJob job = job_of({8}, 8);
    job.higher_is_better = higher;
    Trainings trainings(job);
    EXPECT_FALSE(trainings.report(trainings.begin(), 1, std::nan(""))->stop);
  }
}

TEST(BatchSizeOptimizer, WhileAResultIsMissingOthersGetTheCheapest) {
  Trainings trainings(job_of({8, 16}, 16));
  const Trial first = trainings.begin();
  const Trial second = trainings.begin();
  EXPECT_EQ(first.kind, Kind::kExploration);
  EXPECT_EQ(second.kind, Kind::kConcurrent);
  EXPECT_EQ(second.batch_size, 16);  // only the default is known
  EXPECT_EQ(second.number, 2);
  trainings.report(first, 10, 1).value();
  const Trial third = trainings.begin();
  EXPECT_EQ(third.kind, Kind::kExploration);
  EXPECT_EQ(third.batch_size, 8);
  EXPECT_EQ(trainings.begin().batch_size, 16);
}

TEST(BatchSizeOptimizer, AnExplorationThatComesAfterPruningCounts) {
  RecurringJob job = job_of({8, 16}, 16);
  Trainings trainings(job);
  const Trial silent = trainings.begin();
  trainings.now += BatchSizeOptimizer::kFirstLease + Seconds{1};
  for (int i = 0; i < 4; ++i) trainings.recur({{8, 5}, {16, 10}});
  EXPECT_EQ(trainings.begin().kind, Kind::kExploitation);
  EXPECT_TRUE(trainings.report(silent, 9, 1)->converged);
}

TEST(BatchSizeOptimizer, ASilentTrialBlocksNobodyForLongerThanItsLease) {
  Trainings trainings(job_of({8, 16}, 16));
  const Trial killed = trainings.begin();
  trainings.report(killed, 1, 0).value();  // epochs take a second: the lease is the shortest
  trainings.now += BatchSizeOptimizer::kShortestLease;
  EXPECT_EQ(trainings.begin().kind, Kind::kConcurrent);
  trainings.now += Seconds{1};
  EXPECT_THAT(trainings.optimizer.expire(trainings.now), ElementsAre(killed.number));
  const Trial again = trainings.begin();
  EXPECT_EQ(again.kind, Kind::kExploration);
  EXPECT_EQ(again.batch_size, killed.batch_size);
}

TEST(BatchSizeOptimizer, LongEpochsHaveLongLeases) {
  Trainings trainings(job_of({8}, 8));
  const Trial trial = trainings.begin();
  for (int epoch = 1; epoch <= 3; ++epoch) {
    trainings.now += Seconds{3600};
    ASSERT_TRUE(trainings.report(trial, epoch, 0, epoch).ok());
  }
  trainings.now += Seconds{9 * 3600.0};
  EXPECT_THAT(trainings.optimizer.expire(trainings.now), ElementsAre());
  trainings.now += Seconds{2 * 3600.0};
  EXPECT_THAT(trainings.optimizer.expire(trainings.now), ElementsAre(trial.number));
}

TEST(BatchSizeOptimizer, AReportAfterTheEndSaysWhatItWas) {
  Trainings trainings(job_of({8}, 8));
  const Trial trial = trainings.begin();
  trainings.report(trial, 10, 1).value();
  const auto again = trainings.report(trial, 11, 0, 2);
  EXPECT_EQ(again->reason, Reason::kReported);
  EXPECT_TRUE(again->stop);
  EXPECT_TRUE(again->converged);
  EXPECT_EQ(trainings.optimizer.find(trial.number)->energy, Joules{10});
}

TEST(BatchSizeOptimizer, ATrialThatWasGivenUpIsExploredAgain) {
  Trainings trainings(job_of({8}, 8));
  const Trial trial = trainings.begin();
  ASSERT_TRUE(trainings.optimizer.give_up(trial.number, 8, trainings.now).ok());
  EXPECT_EQ(trainings.report(trial, 1, 1).error().code, ErrorCode::kConflict);
  const Trial again = trainings.begin();
  EXPECT_EQ(again.kind, Kind::kExploration);
  trainings.report(again, 10, 1).value();
  ASSERT_TRUE(trainings.optimizer.give_up(again.number, 8, trainings.now).ok());
  EXPECT_EQ(trainings.optimizer.find(again.number)->status, TrialStatus::kSucceeded);
}

TEST(BatchSizeOptimizer, NoSizeThatConvergesIsSaid) {
  RecurringJob job = job_of({8, 16}, 16);
  job.max_epochs = 1;
  Trainings trainings(job);
  trainings.report(trainings.begin(), 10, 0).value();
  const auto next = trainings.optimizer.next(trainings.now);
  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.error().code, ErrorCode::kInfeasible);
  EXPECT_THAT(next.error().text(), HasSubstr("no batch size"));
}

TEST(BatchSizeOptimizer, WrongReportsChangeNothingAndAreCounted) {
  Trainings trainings(job_of({8}, 8));
  const Trial trial = trainings.begin();
  trainings.report(trial, 5, 0, 2).value();
  const auto state = [&] {
    auto document = json_or_discarded(batch_size_optimizer_json(trainings.optimizer));
    document.erase("reports_refused");
    return document;
  };
  const auto before = state();
  const double nan = std::nan("");
  const TrialReport good{
      .trial = 1, .batch_size = 8, .epoch = 3, .time = Seconds{3}, .energy = Joules{6}};
  const auto refused = [&](auto change) {
    TrialReport report = good;
    change(report);
    const auto done = trainings.optimizer.report(report, trainings.now);
    EXPECT_FALSE(done.ok());
    EXPECT_EQ(state(), before);
    return done.ok() ? ErrorCode::kInternal : done.error().code;
  };
  EXPECT_EQ(refused([](TrialReport& one) { one.trial = 2; }), ErrorCode::kNotFound);
  EXPECT_EQ(refused([](TrialReport& one) { one.batch_size = 9; }), ErrorCode::kNotFound);
  EXPECT_EQ(refused([](TrialReport& one) { one.epoch = 0; }), ErrorCode::kInvalidInput);
  EXPECT_EQ(refused([](TrialReport& one) { one.epoch = 1; }), ErrorCode::kInvalidInput);
  EXPECT_EQ(refused([&](TrialReport& one) { one.time.value = nan; }), ErrorCode::kInvalidInput);
  EXPECT_EQ(refused([](TrialReport& one) { one.energy.value = -1; }), ErrorCode::kInvalidInput);
  EXPECT_EQ(refused([](TrialReport& one) { one.energy.value = 4; }), ErrorCode::kInvalidInput);
  EXPECT_EQ(refused([](TrialReport& one) { one.time.value = 1e9; }), ErrorCode::kInvalidInput);
  EXPECT_EQ(trainings.optimizer.reports_refused(), 6);
  const auto stored =
      parse_batch_size_optimizer(batch_size_optimizer_json(trainings.optimizer)).value();
  EXPECT_EQ(stored.reports_refused(), 6);
}

TEST(BatchSizeOptimizer, AWindowFollowsDataThatDrift) {
  RecurringJob job = job_of({8, 16}, 8);
  job.window = 5;
  job.beta.reset();
  Trainings trainings(job);
  const std::map<int, double> before{{8, 10}, {16, 20}}, after{{8, 40}, {16, 20}};
  for (int i = 0; i < 20; ++i) trainings.recur(before);
  EXPECT_EQ(trainings.recur(before), 8);
  for (int i = 0; i < 12; ++i) trainings.recur(after);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(trainings.recur(after), 16);
}

/// After any sequence of events, a state that is written and read behaves like the original.
TEST(BatchSizeOptimizer, IsTheSameOnceWrittenAndRead) {
  const std::int64_t seeds = HARPE_UNDER_SANITIZERS ? 3 : 30;
  for (std::int64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    RecurringJob job = job_of({8, 16, 32, 64}, 32);
    job.max_epochs = 3;
    Draws draws{.seed = seed};
    Trainings trainings(job, seed);
    for (int step = 0; step < 200; ++step) {
      auto copy = parse_batch_size_optimizer(batch_size_optimizer_json(trainings.optimizer));
      ASSERT_TRUE(copy.ok()) << copy.error().text();
      ASSERT_EQ(batch_size_optimizer_json(*copy), batch_size_optimizer_json(trainings.optimizer));
      trainings.now += Seconds{draws.uniform() * 900};
      const auto& trials = trainings.optimizer.trials();
      const double what = draws.uniform();
      if (trials.empty() || what < 0.3) {
        const auto one = trainings.optimizer.next(trainings.now), other = copy->next(trainings.now);
        ASSERT_EQ(one.ok(), other.ok());
        if (!one.ok()) break;
        ASSERT_EQ(one->trial, other->trial);
      } else {
        const Trial trial =
            trials[static_cast<std::size_t>(draws.uniform() * static_cast<double>(trials.size()))];
        if (what < 0.35) {
          (void)trainings.optimizer.give_up(trial.number, trial.batch_size, trainings.now);
        } else {
          const double metric = draws.uniform() < 0.4 ? 1 : 0;
          (void)trainings.report(trial, trial.energy.value + 1 + draws.uniform(), metric,
                                 trial.epochs + 1);
        }
      }
    }
  }
}

TEST(BatchSizeOptimizer, RemembersAsMuchAsItMay) {
  Trainings trainings(job_of({8, 16}, 16));
  const std::map<int, double> costs{{8, 10}, {16, 20}};
  for (std::size_t i = 0; i < BatchSizeOptimizer::kMostTrials + 50; ++i) trainings.recur(costs);
  EXPECT_EQ(trainings.optimizer.trials().size(), BatchSizeOptimizer::kMostTrials);
  EXPECT_EQ(trainings.optimizer.trials().front().kind, Kind::kExploration);
  EXPECT_EQ(trainings.begin().batch_size, 8);
}

TEST(BatchSizeOptimizer, TooManyTrialsAtOnceAreRefused) {
  Trainings trainings(job_of({8}, 8));
  for (std::size_t i = 0; i < BatchSizeOptimizer::kMostTrials; ++i) trainings.begin();
  EXPECT_EQ(trainings.optimizer.next(trainings.now).error().code, ErrorCode::kUnavailable);
}

TEST(BatchSizeOptimizer, RefusesEnergiesAndTimesThatCannotBe) {
  Trainings trainings(job_of({8, 16, 32}, 16));
  const Trial trial = trainings.begin();
  const auto report = [&](int epoch, double time, double energy) {
    return trainings.optimizer.report({.trial = trial.number,
                                       .batch_size = trial.batch_size,
                                       .epoch = epoch,
                                       .time = Seconds{time},
                                       .energy = Joules{energy},
                                       .metric = 0},
                                      trainings.now);
  };
  const auto too_much = report(1, 1, 1e12);
  ASSERT_FALSE(too_much.ok());
  EXPECT_EQ(too_much.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(too_much.error().text(), HasSubstr("max_power, 100 W"));
  const auto too_short = report(1, 1e-6, 1e-6);
  ASSERT_FALSE(too_short.ok());
  EXPECT_THAT(too_short.error().text(), HasSubstr("1e-06 s, is too short for 1 epoch"));
  EXPECT_TRUE(report(1, 3600, 250e3).ok());
  EXPECT_FALSE(report(2, 3601, 650e3).ok()) << "below the limit for the whole, not for this epoch";
  EXPECT_TRUE(report(2, 7200, 500e3).ok()) << "what was refused changed nothing";
}

// A report of 1 us and 1 uJ, before there were bounds, stopped 13 of 13 later trials.
TEST(BatchSizeOptimizer, GoesOnWhenAWrongTrialIsTakenBack) {
  for (const auto algorithm : {BatchSizeAlgorithm::kZeus, BatchSizeAlgorithm::kHarpe}) {
    RecurringJob job = job_of({8, 16, 32}, 16);
    job.algorithm = algorithm;
    Trainings trainings(job), undisturbed(job);
    const std::map<int, double> costs{{8, 120}, {16, 100}, {32, 80}};
    const Trial wrong = trainings.begin();
    EXPECT_TRUE(trainings.report(wrong, 1e-3, 1)->converged);
    std::vector<int> stopped;
    for (int i = 0; i < 2; ++i) {
      const auto next = trainings.optimizer.next(trainings.now);
      if (!next.ok()) break;
      const auto verdict = trainings.report(next->trial, costs.at(next->trial.batch_size), 0.1);
      if (verdict->stop) stopped.push_back(next->trial.number);
    }
    EXPECT_FALSE(stopped.empty());

    const auto others = trainings.optimizer.retract(wrong.number, trainings.now);
    ASSERT_TRUE(others.ok()) << others.error().text();
    EXPECT_EQ(*others, stopped);
    EXPECT_EQ(trainings.optimizer.cheapest(), nullptr);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(trainings.recur(costs), undisturbed.recur(costs)) << i;
    EXPECT_FALSE(trainings.report(wrong, 100, 1).ok()) << "it was taken back";
    EXPECT_EQ(trainings.optimizer.retract(9999, trainings.now).error().code, ErrorCode::kNotFound);
  }
}

TEST(BatchSizeOptimizer, TakesBackWhatIsNoMatterForOthers) {
  Trainings trainings(job_of({8, 16, 32}, 16));
  const Trial cheap = trainings.begin();
  EXPECT_TRUE(trainings.report(cheap, 50, 1)->converged);
  const Trial dear = trainings.begin();
  EXPECT_TRUE(trainings.report(dear, 90, 1)->converged);
  EXPECT_TRUE(trainings.optimizer.retract(dear.number, trainings.now)->empty());
  EXPECT_EQ(trainings.optimizer.cheapest()->number, cheap.number);
  EXPECT_EQ(trainings.begin().batch_size, dear.batch_size) << "it is explored again";
}

TEST(BatchSizeOptimizer, BeginsATrialAgainUnderItsNumber) {
  Trainings trainings(job_of({8, 16, 32}, 16));
  const Trial trial = trainings.begin();
  EXPECT_FALSE(trainings.optimizer.begin_again(trial.number, trainings.now).ok()) << "it runs";
  ASSERT_TRUE(trainings.optimizer.give_up(trial.number, 16, trainings.now).ok());
  trainings.now += Seconds{100};
  const auto again = trainings.optimizer.begin_again(trial.number, trainings.now);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->number, trial.number);
  EXPECT_EQ(again->begun, trainings.now);
  EXPECT_TRUE(trainings.report(*again, 100, 1)->converged);
}

}  // namespace
}  // namespace harpe::zeus
