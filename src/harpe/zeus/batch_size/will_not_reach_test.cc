#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "harpe/zeus/batch_size/batch_size_optimizer.h"
#include "harpe/zeus/batch_size/metric_curve.h"

namespace harpe::zeus {
namespace {

using Reason = TrialVerdict::Reason;
constexpr double kNotReachedNan = std::numeric_limits<double>::quiet_NaN();

using Metric = std::function<double(int epoch)>;

MetricCurve will_not_reach_curve(int epochs, const Metric& metric) {
  MetricCurve curve;
  for (int epoch = 1; epoch <= epochs; ++epoch) curve.add(epoch, metric(epoch));
  return curve;
}

/// Returns the epoch after which the training is ended, or 0 if it is not ended.
int ended_after(const Metric& metric, std::vector<MetricCurve> converged,
                const MetricTarget& target) {
  std::vector<const MetricCurve*> pointers;
  pointers.reserve(converged.size());
  for (const MetricCurve& one : converged) pointers.push_back(&one);
  for (int epoch = 1; epoch < target.last_epoch; ++epoch) {
    if (will_not_reach(will_not_reach_curve(epoch, metric), pointers, target)) return epoch;
  }
  return 0;
}

double stuck(int epoch) {
  return 0.6 - 0.5 * std::exp(-epoch / 5.0) + 0.002 * std::sin(11.0 * epoch);
}
double smooth(int epoch) {
  return 0.95 - 0.85 * std::exp(-epoch / 8.0) + 0.002 * std::sin(7.0 * epoch);
}
/// Flat from epoch 15 on, until the learning rate drops after epoch 60.
double dropping(int epoch) {
  return stuck(epoch) + (epoch > 60 ? 0.35 : 0);
}
/// At the level of chance until epoch 60.
double grokking(int epoch) {
  return 0.1 + 0.003 * std::sin(11.0 * epoch) + (epoch > 60 ? 0.85 : 0);
}

constexpr MetricTarget kTarget{.metric = 0.9, .higher_is_better = true, .last_epoch = 100};

TEST(WillNotReach, EndsWhatIsStuckOnceOthersHaveConverged) {
  const int after_one = ended_after(stuck, {will_not_reach_curve(25, smooth)}, kTarget);
  const int after_many =
      ended_after(stuck, std::vector<MetricCurve>(8, will_not_reach_curve(25, smooth)), kTarget);
  EXPECT_GE(after_many, kLeastMetrics);
  EXPECT_LE(after_many, after_one);
  EXPECT_LT(after_one, 85);
  EXPECT_LT(after_many, 60);
}

TEST(WillNotReach, WhileNoneHasConvergedAJumpMayComeUntilNearTheEnd) {
  EXPECT_EQ(ended_after(dropping, {}, kTarget), 0);
  EXPECT_EQ(ended_after(grokking, {}, kTarget), 0);
  EXPECT_GT(ended_after(stuck, {}, kTarget), 80);
}

TEST(WillNotReach, AJumpThatOthersHadIsWaitedFor) {
  // Other batch sizes stretch the axis: this training jumps at epoch 60, the other jumped at 20.
  const Metric grokked = [](int epoch) { return grokking(3 * epoch); };
  EXPECT_EQ(ended_after(grokking, {will_not_reach_curve(21, grokked)}, kTarget), 0);
  const Metric lower = [](int epoch) { return epoch > 60 ? 0.95 : stuck(epoch) - 0.01; };
  EXPECT_EQ(ended_after(lower, {will_not_reach_curve(61, dropping)}, kTarget), 0);
}

TEST(WillNotReach, AMetricThatNeverMovedSaysNothingOfAFirstTraining) {
  const Metric same = [](int) { return 0.1; };
  EXPECT_EQ(ended_after(same, {}, kTarget), 0);
  EXPECT_GT(ended_after(same, {will_not_reach_curve(25, smooth)}, kTarget), 0);
  // If the metric is a flag in all trainings of the job, each keeps up with the others.
  const Metric flag = [](int epoch) { return epoch == 25 ? 1 : 0; };
  EXPECT_EQ(ended_after([](int) { return 0; }, {will_not_reach_curve(25, flag)}, kTarget), 0);
}

/// The price of a history of smooth curves: see docs/zeus.md.
TEST(WillNotReach, AJumpThatNoOtherHadIsNotForeseen) {
  const std::vector<MetricCurve> others(8, will_not_reach_curve(25, smooth));
  EXPECT_GT(ended_after(grokking, others, kTarget), 0);
}

TEST(WillNotReach, WhatKeepsUpIsNeverEnded) {
  // Three times as slow as the training that converged.
  const Metric slow = [](int epoch) { return smooth((epoch + 2) / 3); };
  EXPECT_EQ(ended_after(slow, {will_not_reach_curve(25, smooth)}, kTarget), 0);
}

TEST(WillNotReach, LowerIsBetterIsTheSame) {
  const Metric loss = [](int epoch) { return 3 - 2 * stuck(epoch); };
  const MetricTarget target{.metric = 3 - 2 * 0.9, .higher_is_better = false, .last_epoch = 100};
  const Metric other = [](int epoch) { return 3 - 2 * smooth(epoch); };
  EXPECT_EQ(ended_after(loss, {will_not_reach_curve(25, other)}, target),
            ended_after(stuck, {will_not_reach_curve(25, smooth)}, kTarget));
}

TEST(WillNotReach, WhatBecomesNoNumberHasDiverged) {
  const Metric diverging = [](int epoch) { return epoch > 10 ? kNotReachedNan : smooth(epoch); };
  EXPECT_EQ(ended_after(diverging, {}, kTarget), 10 + kMostMissing + 1);
  const Metric from_the_start = [](int) { return kNotReachedNan; };
  EXPECT_EQ(ended_after(from_the_start, {will_not_reach_curve(25, smooth)}, kTarget),
            kMostMissing + 1);
  // In the first training of a job, the metric may be one that is not measured each epoch.
  EXPECT_EQ(ended_after(from_the_start, {}, kTarget), 0);
}

TEST(WillNotReach, AMetricThatIsMeasuredNowAndThenHasNotDiverged) {
  const Metric each_fourth = [](int epoch) {
    return epoch % 4 == 0 ? smooth(epoch) : kNotReachedNan;
  };
  EXPECT_EQ(ended_after(each_fourth, {}, kTarget), 0);
  const Metric each_tenth = [](int epoch) {
    return epoch % 10 == 0 ? smooth(epoch) : kNotReachedNan;
  };
  EXPECT_EQ(ended_after(each_tenth, {will_not_reach_curve(30, each_tenth)}, kTarget), 0);
  // It is only known that the target was reached.
  const Metric at_the_end = [](int epoch) { return epoch == 20 ? 1 : kNotReachedNan; };
  EXPECT_EQ(ended_after([](int) { return kNotReachedNan; }, {will_not_reach_curve(20, at_the_end)},
                        kTarget),
            0);
}

RecurringJob job_of(BatchSizeAlgorithm algorithm) {
  RecurringJob job;
  job.id = job.id_prefix = "job";
  job.batch_sizes = {8, 16};
  job.default_batch_size = 16;
  job.eta = 1;  // costs are energies
  job.beta = 10;
  job.target_metric = 0.9;
  job.max_power = Watts{100};
  job.gpus = 1;
  job.gpu_model = "A40";
  job.algorithm = algorithm;
  job.recurrences = 1000;
  return job;
}

/// Runs one training with this metric. Each epoch costs the same.
TrialVerdict train(BatchSizeOptimizer& optimizer, const Metric& metric, double epoch_cost = 1) {
  const auto given = optimizer.next(optimizer.heard());
  EXPECT_TRUE(given.ok());
  TrialVerdict verdict;
  for (int epoch = 1; !verdict.stop; ++epoch) {
    verdict = optimizer
                  .report({.trial = given->trial.number,
                           .batch_size = given->trial.batch_size,
                           .epoch = epoch,
                           .time = Seconds{1.0 * epoch},
                           .energy = Joules{epoch_cost * epoch},
                           .metric = metric(epoch)},
                          optimizer.heard() + Seconds{1})
                  .value();
  }
  return verdict;
}

TEST(WillNotReach, OnlyHarpesOwnJobsAreEnded) {
  BatchSizeOptimizer zeus(job_of(BatchSizeAlgorithm::kZeus), {.seed = 1});
  BatchSizeOptimizer harpe(job_of(BatchSizeAlgorithm::kHarpe), {.seed = 1});
  EXPECT_EQ(train(zeus, smooth).reason, Reason::kReached);
  EXPECT_EQ(train(harpe, smooth).reason, Reason::kReached);
  // Cheap epochs, so that nothing else ends the training.
  EXPECT_EQ(train(zeus, stuck, 0.01).reason, Reason::kMaxEpochs);
  const TrialVerdict verdict = train(harpe, stuck, 0.01);
  EXPECT_EQ(verdict.reason, Reason::kWillNotReach);
  EXPECT_TRUE(verdict.stop);
  EXPECT_FALSE(verdict.converged);
  EXPECT_EQ(verdict.last_epoch, 100);
  EXPECT_EQ(batch_size_optimizer_json(zeus).find("metrics"), std::string::npos);
}

TEST(WillNotReach, WhatConvergedElsewhereLaterIsNotEnded) {
  RecurringJob job = job_of(BatchSizeAlgorithm::kHarpe);
  BatchSizeOptimizer without(job, {.seed = 1});
  job.known_epochs = {{.batch_size = 16, .epochs = 95}};
  BatchSizeOptimizer with(job, {.seed = 1});
  const Metric late = [](int epoch) { return epoch < 95 ? stuck(epoch) : 1; };
  EXPECT_EQ(train(without, late).reason, Reason::kWillNotReach);
  EXPECT_EQ(train(with, late).reason, Reason::kReached);
}

TEST(WillNotReach, TheBoundLimitsTheEpochs) {
  RecurringJob job = job_of(BatchSizeAlgorithm::kHarpe);
  BatchSizeOptimizer optimizer(job, {.seed = 1});
  const TrialVerdict first = train(optimizer, smooth);
  EXPECT_EQ(first.last_epoch, 100);
  const double bound = *job.beta * first.cost;
  // At 4 J per epoch, the bound is reached before the last epoch.
  const auto given = optimizer.next(optimizer.heard());
  for (int epoch = 1; epoch <= 3; ++epoch) {
    const auto verdict = optimizer.report({.trial = given->trial.number,
                                           .batch_size = given->trial.batch_size,
                                           .epoch = epoch,
                                           .time = Seconds{1.0 * epoch},
                                           .energy = Joules{4.0 * epoch},
                                           .metric = smooth(epoch)},
                                          optimizer.heard());
    ASSERT_TRUE(verdict.ok());
    if (epoch == 1) continue;
    EXPECT_GE(verdict->last_epoch, std::floor(bound / 4));
    EXPECT_LE(verdict->last_epoch, std::ceil(bound / 4 / 0.95));
  }
}

TEST(WillNotReach, MetricsAreRememberedOfTheNewestThatConvergedAndStored) {
  BatchSizeOptimizer optimizer(job_of(BatchSizeAlgorithm::kHarpe), {.seed = 1});
  for (std::size_t i = 0; i < BatchSizeOptimizer::kMostCurves + 5; ++i) train(optimizer, smooth);
  const auto& trials = optimizer.trials();
  for (std::size_t i = 0; i < trials.size(); ++i) {
    EXPECT_EQ(trials[i].metrics.empty(), i + BatchSizeOptimizer::kMostCurves < trials.size()) << i;
  }
  const auto given = optimizer.next(optimizer.heard());
  for (int epoch = 1; epoch <= 2; ++epoch) {
    ASSERT_TRUE(optimizer
                    .report({.trial = given->trial.number,
                             .batch_size = given->trial.batch_size,
                             .epoch = epoch,
                             .time = Seconds{1.0 * epoch},
                             .metric = epoch == 1 ? kNotReachedNan : 0.1},
                            optimizer.heard())
                    .ok());
  }
  const std::string text = batch_size_optimizer_json(optimizer);
  EXPECT_NE(text.find("\"metrics\":[[1,null],[2,0.1]]"), std::string::npos);
  const auto again = parse_batch_size_optimizer(text);
  ASSERT_TRUE(again.ok()) << again.error().text();
  EXPECT_EQ(again->trials(), trials);
  EXPECT_EQ(batch_size_optimizer_json(*again), text);
}

TEST(WillNotReach, WrongMetricsOfAStoredStateAreNamed) {
  BatchSizeOptimizer optimizer(job_of(BatchSizeAlgorithm::kHarpe), {.seed = 1});
  const auto given = optimizer.next(Seconds{});
  ASSERT_TRUE(given.ok());
  for (const char* metrics : {"3", "[3]", "[[1]]", "[[0,1]]", "[[2,1],[2,1]]", "[[1,\"x\"]]",
                              "[[1.5,1]]", "[[99999999999,1]]"}) {
    std::string text = batch_size_optimizer_json(optimizer);
    const std::string before = "\"converged\":false";
    text.replace(text.find(before), before.size(), before + ",\"metrics\":" + std::string(metrics));
    const auto read = parse_batch_size_optimizer(text);
    ASSERT_FALSE(read.ok()) << metrics;
    EXPECT_NE(read.error().text().find("metrics"), std::string::npos) << read.error().text();
  }
}

}  // namespace
}  // namespace harpe::zeus
