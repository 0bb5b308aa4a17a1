// Trainings ended early because of their metric, over real curves: test_data/metric_curves.csv,
// made by scripts/train_metric_curves.py. Each curve is judged for several targets and numbers of
// epochs, with zero, one and three converged trainings of the same task.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <sstream>

#include "harpe/base/csv.h"
#include "harpe/base/file.h"
#include "harpe/base/hashed_random.h"
#include "harpe/base/source_tree_testing.h"
#include "harpe/zeus/batch_size/metric_curve.h"

namespace harpe::zeus {
namespace {

struct Training {
  std::string setting;  ///< batch size and learning rate
  std::vector<double> metrics;
};

struct Task {
  std::string use;
  bool higher_is_better = true;
  std::vector<Training> trainings = {};
};

struct Case {
  const Task& task;
  const Training& training;
  MetricTarget target;

  /// Returns the first epoch that reaches the target, or nullopt if none does.
  std::optional<int> reached(const Training& one, int last) const {
    for (int epoch = 1; epoch <= last; ++epoch) {
      const double metric = one.metrics[static_cast<std::size_t>(epoch) - 1];
      if (target.higher_is_better ? metric >= target.metric : metric <= target.metric) {
        return epoch;
      }
    }
    return std::nullopt;
  }
  MetricCurve curve(const Training& one, int epochs) const {
    MetricCurve curve;
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      curve.add(epoch, one.metrics[static_cast<std::size_t>(epoch) - 1]);
    }
    return curve;
  }
};

struct Tally {
  int reach = 0, wrong = 0;   ///< trainings that reach the target; number of them ended
  int never = 0, ended = 0;   ///< trainings that do not; number of them ended
  double saved = 0, all = 0;  ///< epochs of the trainings that do not

  double wrong_share() const { return 1.0 * wrong / std::max(1, reach); }
  double saved_share() const { return saved / std::max(1.0, all); }
};

std::map<std::string, Task> read_tasks() {
  const auto text = read_file(std::filesystem::path(source_tree()) /
                              "src/harpe/zeus/batch_size/test_data/metric_curves.csv");
  std::map<std::string, Task> tasks;
  if (!text.ok()) return tasks;
  Diagnostics diagnostics;
  const std::vector<CsvRow> rows = split_csv(*text, diagnostics);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const auto& cells = rows[i].cells;
    Task& task = tasks[cells[0].text];
    task.use = cells[1].text;
    task.higher_is_better = cells[2].text == "1";
    Training& one = task.trainings.emplace_back();
    one.setting = cells[3].text + " " + cells[4].text;
    std::istringstream metrics(cells[7].text);
    for (std::string metric; metrics >> metric;) {
      one.metrics.push_back(metric == "nan" ? std::nan("") : std::stod(metric));
    }
  }
  return tasks;
}

/// Returns quantiles of the best metrics of the task's trainings.
std::vector<double> targets_of(const Task& task) {
  std::vector<double> best;
  const double sign = task.higher_is_better ? 1 : -1;
  for (const Training& one : task.trainings) {
    double most = -std::numeric_limits<double>::infinity();
    for (const double metric : one.metrics) most = std::max(most, sign * metric);
    if (std::isfinite(most)) best.push_back(most);
  }
  std::ranges::sort(best);
  std::vector<double> targets;
  for (const double share : {0.25, 0.4, 0.55, 0.7, 0.85}) {
    targets.push_back(sign *
                      best[static_cast<std::size_t>(share * static_cast<double>(best.size()))]);
  }
  const auto [again, end] = std::ranges::unique(targets);
  targets.erase(again, end);
  return targets;
}

/// Returns random trainings of the task with other settings, up to their target.
std::vector<MetricCurve> history(const Case& one, std::size_t count, std::uint64_t seed) {
  std::vector<MetricCurve> curves;
  for (std::uint64_t i = 0; i < 200 && curves.size() < count; ++i) {
    const Training& other = one.task.trainings[mixed(seed, count, i) % one.task.trainings.size()];
    const auto epoch = one.reached(other, static_cast<int>(other.metrics.size()));
    if (epoch && other.setting != one.training.setting) curves.push_back(one.curve(other, *epoch));
  }
  return curves;
}

void judge(const Case& one, const std::vector<MetricCurve>& converged, Tally& tally) {
  std::vector<const MetricCurve*> pointers;
  for (const MetricCurve& curve : converged) pointers.push_back(&curve);
  const int last = one.target.last_epoch;
  const auto reached = one.reached(one.training, last);
  std::optional<int> ended;
  for (int epoch = kLeastMetrics; epoch < reached.value_or(last) && !ended; ++epoch) {
    if (will_not_reach(one.curve(one.training, epoch), pointers, one.target)) ended = epoch;
  }
  if (reached) {
    ++tally.reach;
    tally.wrong += ended ? 1 : 0;
    return;
  }
  ++tally.never;
  tally.ended += ended ? 1 : 0;
  tally.saved += last - ended.value_or(last);
  tally.all += last;
}

Tally tally_of(const Task& task, std::size_t others) {
  Tally tally;
  std::uint64_t number = 0;
  for (const double metric : targets_of(task)) {
    for (const int last : {45, 30, 20}) {
      for (const Training& training : task.trainings) {
        if (HARPE_UNDER_SANITIZERS && number % 16 != 0 && ++number > 0) continue;
        const Case one{
            task,
            training,
            {.metric = metric, .higher_is_better = task.higher_is_better, .last_epoch = last}};
        const std::vector<MetricCurve> converged = history(one, others, ++number);
        if (converged.empty() == (others > 0)) continue;
        judge(one, converged, tally);
      }
    }
  }
  return tally;
}

/// The constants were chosen with knowledge of the tasks whose use is "choose".
struct Corpus {
  Tally choose, judge;
  std::map<std::string, Tally> tasks;
};

Corpus corpus_of(std::size_t others) {
  Corpus corpus;
  for (const auto& [name, task] : read_tasks()) {
    const Tally one = tally_of(task, others);
    Tally& sum = task.use == "judge" ? corpus.judge : corpus.choose;
    sum.reach += one.reach;
    sum.wrong += one.wrong;
    sum.never += one.never;
    sum.ended += one.ended;
    sum.saved += one.saved;
    sum.all += one.all;
    corpus.tasks[name] = one;
  }
  const auto print = [others](const std::string& name, const Tally& one) {
    std::printf(
        "%zu converged before, %-13s: %d of %d that reach ended (%.2f %%), %d of %d others,"
        " %.1f %% of their epochs saved\n",
        others, name.c_str(), one.wrong, one.reach, 100 * one.wrong_share(), one.ended, one.never,
        100 * one.saved_share());
  };
  for (const auto& [name, one] : corpus.tasks) print(name, one);
  print("all to choose", corpus.choose);
  print("all to judge", corpus.judge);
  return corpus;
}

/// \param saved  least share of epochs saved in trainings that never reach their target
void expect_conservative(std::size_t others, double saved) {
  const Corpus corpus = corpus_of(others);
  ASSERT_EQ(corpus.tasks.size(), 11U);
  if (HARPE_UNDER_SANITIZERS) return;  // a sample: too few trainings to judge
  ASSERT_GT(corpus.choose.reach, 500);
  ASSERT_GT(corpus.judge.reach, 500);
  EXPECT_LE(corpus.choose.wrong_share(), 0.01);
  // The only task that is wrongly ended here is parity, which jumps from the level of chance.
  EXPECT_LE(corpus.judge.wrong_share(), 0.01);
  // A task has 108 to 210 such trainings: one or two more may be chance.
  for (const auto& [name, one] : corpus.tasks) EXPECT_LE(one.wrong_share(), 0.02) << name;
  EXPECT_GE(corpus.choose.saved_share(), saved);
  EXPECT_GE(corpus.judge.saved_share(), saved);
}

TEST(WillNotReachCorpus, HardlyEndsAnyOfAJobThatHasNotConverged) {
  expect_conservative(0, 0.06);
}

TEST(WillNotReachCorpus, SavesAQuarterAfterOneThatConverged) {
  expect_conservative(1, 0.25);
}

TEST(WillNotReachCorpus, SavesAQuarterAfterThreeThatConverged) {
  expect_conservative(3, 0.25);
}

}  // namespace
}  // namespace harpe::zeus
