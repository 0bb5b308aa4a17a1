#include "harpe/lab/replay/measured_limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "harpe/base/source_tree_testing.h"
#include "harpe/lab/replay/traces_testing.h"

namespace harpe::lab {
namespace {

/// Returns a job with two batch sizes on an A40 that never idles.
TracedJob small_job() {
  TracedJob traced;
  traced.dataset = "small";
  traced.job.eta = 0.5;
  traced.job.gpus = 1;
  traced.job.max_power = Watts{300};
  traced.job.batch_sizes = {32, 64};
  for (const int size : traced.job.batch_sizes) {
    TracedSize& one = traced.sizes.emplace_back();
    one.batch_size = size;
    one.runs = {4};
    for (const int watts : {100, 150, 200, 250, 300}) {
      const double seconds = 10 * (1 + 2 * std::exp((100.0 - watts) / 25));
      one.limits.push_back({watts, Seconds{seconds}, Joules{seconds * std::min(watts, 280)}});
    }
    const auto cheapest = std::ranges::min_element(
        one.limits, {}, [&](const TracedLimit& limit) { return traced.epoch_cost(limit); });
    one.best = static_cast<std::size_t>(cheapest - one.limits.begin());
  }
  return traced;
}

TEST(MeasuredLimits, AFirstEpochCostsTheMeanOfWhatWasMeasuredAndTheNextTheBestOfThat) {
  const TracedJob job = small_job();
  MeasuredLimits limits(job);
  const TracedSize& size = job.sizes[0];
  // With 1e9 epochs ahead, every limit that may be the best is measured.
  const TracedLimit first = limits.first_epoch(size, 1e9);
  EXPECT_GE(limits.count(32), 2U);
  EXPECT_EQ(limits.best(size).watts, size.limits[size.best].watts);
  EXPECT_GT(job.epoch_cost(first), job.epoch_cost(limits.best(size)));
  if (limits.count(32) == size.limits.size()) {
    EXPECT_NEAR(job.epoch_cost(first), job.epoch_cost(size.profiled()), 1e-9);
  }
  const TracedLimit second = limits.first_epoch(size, 1e9);
  EXPECT_EQ(job.epoch_cost(second), job.epoch_cost(limits.best(size)));
}

TEST(MeasuredLimits, OfAnAlikeSizeFewerAreMeasuredAtLessCost) {
  const TracedJob job = small_job();
  MeasuredLimits limits(job);
  limits.first_epoch(job.sizes[0], 100);
  const TracedLimit first = limits.first_epoch(job.sizes[1], 100);
  EXPECT_LT(limits.count(64), job.sizes[1].limits.size());
  EXPECT_LT(job.epoch_cost(first), job.epoch_cost(job.sizes[1].profiled()));
  EXPECT_EQ(limits.best(job.sizes[1]).watts, job.sizes[1].limits[job.sizes[1].best].watts);
  EXPECT_EQ(limits.count(128), 0U);
}

/// Sums over batch sizes: the extra cost of first epochs, and of the best measured limit, relative
/// to the best limit.
struct Sums {
  double excess = 0, excess_of_all = 0, loss = 0, worst = 0;
  int sizes = 0;
};

/// Measures all batch sizes, nearest to the default first.
Sums sums_of(const TracedJob& job) {
  std::vector<const TracedSize*> order;
  for (const TracedSize& size : job.sizes) order.push_back(&size);
  std::ranges::sort(order, {}, [&](const TracedSize* size) {
    const double to = std::log2(job.job.default_batch_size);
    return std::pair(std::abs(std::log2(size->batch_size) - to), size->batch_size);
  });
  Sums sums;
  MeasuredLimits limits(job);
  for (const TracedSize* size : order) {
    const double least = job.epoch_cost(size->limits[size->best]);
    sums.excess += job.epoch_cost(limits.first_epoch(*size, 300)) / least - 1;
    sums.excess_of_all += job.epoch_cost(size->profiled()) / least - 1;
    const double over = job.epoch_cost(limits.best(*size)) / least - 1;
    sums.loss += over;
    sums.worst = std::max(sums.worst, over);
    ++sums.sizes;
  }
  return sums;
}

TEST(MeasuredLimits, OnZeusTracesCostLittleAndFindTheBest) {
  const auto directory = measured_data() / "zeus" / "traces";
  if (!exists(directory)) GTEST_SKIP() << "Zeus's traces are not there (HARPE_SHARED)";
  Sums all;
  for (const char* gpu : traced_gpus()) {
    const auto traces = read_traces(directory, gpu);
    ASSERT_TRUE(traces.ok()) << traces.error().text();
    for (const TracedDataset& dataset : traced_datasets()) {
      const auto job = traced_job(*traces, dataset, gpu, 0.5);
      ASSERT_TRUE(job.ok()) << job.error().text();
      const Sums sums = sums_of(*job);
      EXPECT_LT(sums.worst, 0.05) << gpu << " " << dataset.name;
      std::printf(
          "%-8s %-13s %5.1f %% more than the best, all limits %5.1f %%, worst choice %.1f %%\n",
          gpu, dataset.name, 100 * sums.excess / sums.sizes, 100 * sums.excess_of_all / sums.sizes,
          100 * sums.worst);
      all.excess += sums.excess;
      all.excess_of_all += sums.excess_of_all;
      all.loss += sums.loss;
      all.sizes += sums.sizes;
    }
  }
  EXPECT_LT(all.loss / all.sizes, 0.001);
  EXPECT_LT(all.excess, 0.6 * all.excess_of_all);
}

}  // namespace
}  // namespace harpe::lab
