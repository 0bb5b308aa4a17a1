#include "harpe/lab/replay/recurrences.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "harpe/base/source_tree_testing.h"
#include "harpe/lab/replay/comparison.h"
#include "harpe/lab/replay/traces_testing.h"

namespace harpe::lab {
namespace {

std::filesystem::path traces_directory() {
  return measured_data() / "zeus" / "traces";
}

struct Figures {
  Spread by_default, zeus, harpe;
};

/// Returns a job whose number of recurrences is known to Harpe.
Result<TracedJob> told_job(const Traces& traces, const TracedDataset& dataset,
                           const std::string& gpu) {
  Result<TracedJob> job = traced_job(traces, dataset, gpu, 0.5);
  if (job.ok()) job->horizon.is_known = true;
  return job;
}

/// \param before  the same job on another GPU, whose history Harpe uses; null for no history
Figures figures_of(const TracedJob& job, int seeds, const TracedJob* before = nullptr) {
  std::vector<double> by_default, zeus, harpe;
  for (int seed = 1; seed <= seeds; ++seed) {
    const zeus::PayBackPrior prior;
    const auto number = static_cast<std::uint64_t>(seed);
    std::vector<zeus::KnownEpochs> known;
    if (before != nullptr) known = known_epochs(recur_by_harpe(*before, ~number, prior).value());
    const auto one = compare_seed(job, number, prior, known);
    if (!one.ok()) ADD_FAILURE() << one.error().text();
    if (!one.ok()) continue;
    by_default.push_back(one->by_default);
    EXPECT_TRUE(one->zeus.has_value());
    if (one->zeus) zeus.push_back(one->zeus->cost_over_oracle);
    harpe.push_back(one->harpe.cost_over_oracle);
  }
  return {spread_of(by_default), spread_of(zeus), spread_of(harpe)};
}

TEST(Recurrences, AreThoseOfZeusWithinTheSpreadOfSeeds) {
  if (!exists(traces_directory())) GTEST_SKIP() << "Zeus's traces are not there (HARPE_SHARED)";
  const auto traces = read_traces(traces_directory(), "v100");
  ASSERT_TRUE(traces.ok()) << traces.error().text();
  // Means of 20 seeds from Zeus's own simulator with its own random numbers.
  const std::map<std::string, std::pair<double, double>> published{
      {"cifar100", {1.071, 2.317}},     {"imagenet", {1.063, 1.057}},
      {"squad", {1.018, 1.083}},        {"librispeech", {1.039, 1.411}},
      {"movielens-1m", {1.077, 2.765}}, {"sentiment140", {1.024, 1.057}}};
  for (const TracedDataset& dataset : traced_datasets()) {
    const auto job = told_job(*traces, dataset, "v100");
    ASSERT_TRUE(job.ok()) << job.error().text();
    const Figures figures = figures_of(*job, 100);
    const auto& [zeus, by_default] = published.at(dataset.name);
    // The error of the published mean of 20: three standard deviations of the mean, and rounding.
    EXPECT_NEAR(figures.zeus.mean, zeus, 3 * figures.zeus.deviation / std::sqrt(20) + 0.001)
        << dataset.name;
    EXPECT_NEAR(figures.by_default.mean, by_default,
                3 * figures.by_default.deviation / std::sqrt(20) + 0.001)
        << dataset.name;
  }
}

// Regression bounds: the constants were chosen with knowledge of these traces. docs/zeus.md has the
// results of constants that were chosen on the other data sets.
TEST(Recurrences, OfHarpeAreNearTheOracleOnTheV100) {
  if (!exists(traces_directory())) GTEST_SKIP() << "Zeus's traces are not there (HARPE_SHARED)";
  const auto traces = read_traces(traces_directory(), "v100");
  ASSERT_TRUE(traces.ok()) << traces.error().text();
  double mean = 0;
  for (const TracedDataset& dataset : traced_datasets()) {
    const auto job = told_job(*traces, dataset, "v100");
    ASSERT_TRUE(job.ok()) << job.error().text();
    const Figures figures = figures_of(*job, 100);
    EXPECT_LE(figures.harpe.mean, 1.03) << dataset.name;
    EXPECT_LT(figures.harpe.mean, figures.zeus.mean) << dataset.name;
    EXPECT_LT(figures.harpe.mean, figures.by_default.mean) << dataset.name;
    mean += figures.harpe.mean / 6;
  }
  EXPECT_LE(mean, 1.0155);
}

TEST(Recurrences, OfHarpeAreNearerWithTheHistoryOfAnotherGpu) {
  if (!exists(traces_directory())) GTEST_SKIP() << "Zeus's traces are not there (HARPE_SHARED)";
  const auto traces = read_traces(traces_directory(), "v100");
  ASSERT_TRUE(traces.ok()) << traces.error().text();
  const std::vector<std::string> others{"a40", "p100", "rtx6000"};
  double mean_of_all = 0;
  for (const std::string& gpu : others) {
    const auto elsewhere = read_traces(traces_directory(), gpu);
    ASSERT_TRUE(elsewhere.ok()) << elsewhere.error().text();
    double mean = 0;
    for (const TracedDataset& dataset : traced_datasets()) {
      const auto job = told_job(*traces, dataset, "v100");
      const auto before = told_job(*elsewhere, dataset, gpu);
      ASSERT_TRUE(job.ok() && before.ok());
      mean += figures_of(*job, 100, &*before).harpe.mean / 6;
    }
    EXPECT_LE(mean, 1.0082) << gpu;
    mean_of_all += mean / static_cast<double>(others.size());
  }
  EXPECT_LE(mean_of_all, 1.0065);
}

// Holds for all cells except those named in docs/zeus.md: on the P100 the only other size of
// imagenet never converges, and the figures of squad are within the error of 20 seeds; on the RTX
// 6000 the default of sentiment140 is the oracle's choice.
TEST(Recurrences, OfHarpeCostLessThanOfZeusAndTheDefaultOnEveryGpu) {
  if (!exists(traces_directory())) GTEST_SKIP() << "Zeus's traces are not there (HARPE_SHARED)";
  const std::set<std::pair<std::string, std::string>> but{
      {"p100", "imagenet"}, {"p100", "squad"}, {"rtx6000", "sentiment140"}};
  for (const char* gpu : traced_gpus()) {
    const auto traces = read_traces(traces_directory(), gpu);
    ASSERT_TRUE(traces.ok()) << traces.error().text();
    double harpe = 0, zeus = 0;
    for (const TracedDataset& dataset : traced_datasets()) {
      const auto job = told_job(*traces, dataset, gpu);
      ASSERT_TRUE(job.ok()) << job.error().text();
      const Figures figures = figures_of(*job, 20);
      harpe += figures.harpe.mean;
      zeus += figures.zeus.mean;
      if (but.contains({gpu, dataset.name})) continue;
      EXPECT_LT(figures.harpe.mean, figures.zeus.mean) << gpu << " " << dataset.name;
      EXPECT_LT(figures.harpe.mean, figures.by_default.mean) << gpu << " " << dataset.name;
    }
    EXPECT_LT(harpe, zeus) << gpu;
  }
}

TEST(Recurrences, AreTheSameForTheSameSeed) {
  if (!exists(traces_directory())) GTEST_SKIP() << "Zeus's traces are not there (HARPE_SHARED)";
  const auto traces = read_traces(traces_directory(), "v100");
  ASSERT_TRUE(traces.ok()) << traces.error().text();
  const auto job = told_job(*traces, traced_datasets()[0], "v100");
  const auto one = recur_by_harpe(*job, 7), again = recur_by_harpe(*job, 7);
  const auto other = recur_by_harpe(*job, 8);
  EXPECT_EQ(cost_over_oracle(*job, *one), cost_over_oracle(*job, *again));
  EXPECT_NE(cost_over_oracle(*job, *one), cost_over_oracle(*job, *other));
}

}  // namespace
}  // namespace harpe::lab
