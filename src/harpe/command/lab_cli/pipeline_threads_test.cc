#include "harpe/command/lab_cli/pipeline_threads.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace harpe::command {
namespace {

TEST(PipelineThreads, RunEachItemOnceARoundByWorkersBelowTheCount) {
  for (const std::size_t count : {1U, 2U, 5U}) {
    PipelineThreads threads(count);
    const lab::PipelineWorkers workers = threads.workers();
    EXPECT_EQ(workers.count, count);
    std::vector<int> runs(37);
    std::vector<std::size_t> by(37);
    for (int round = 1; round <= 200; ++round) {
      const std::size_t items = round % 2 == 0 ? runs.size() : 3;
      std::ranges::fill(runs, 0);
      workers.each(items, [&](std::size_t worker, std::size_t item) {
        ++runs[item];
        by[item] = worker;
      });
      EXPECT_EQ(std::ranges::count(runs, 1), static_cast<std::ptrdiff_t>(items));
      EXPECT_LT(std::ranges::max(by), count);
    }
  }
}

}  // namespace
}  // namespace harpe::command
