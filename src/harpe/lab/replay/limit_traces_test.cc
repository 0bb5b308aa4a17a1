// Harpe's profiling on the traces published with Zeus. The constants of setting_model.h were fitted
// to the jobs of three GPU models; the jobs of the fourth were not used.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "harpe/base/csv.h"
#include "harpe/base/file.h"
#include "harpe/base/source_tree_testing.h"
#include "harpe/base/text.h"
#include "harpe/lab/replay/limit_replay.h"

namespace harpe::lab {
namespace {

/// Returns a run for each job and batch size with at least five limits.
std::vector<RecordedRun> runs_of(const std::string& gpu) {
  const auto path = measured_data() / "zeus" / "traces" / ("summary_power_" + gpu + ".csv");
  const auto text = read_file(path);
  if (!text.ok()) return {};
  Diagnostics diagnostics;
  std::map<std::string, std::vector<zeus::Measurement>> curves;
  for (const CsvRow& row : split_csv(*text, diagnostics)) {
    if (row.cells.size() != 7 || row.cells[0].text == "dataset") continue;
    std::string job;
    for (std::size_t i = 0; i < 4; ++i) job += row.cells[i].text + ' ';
    const Seconds time{*parse_number(row.cells[5].text)};
    curves[job].push_back(
        {*parse_number(row.cells[4].text), time, Watts{*parse_number(row.cells[6].text)} * time});
  }
  std::vector<RecordedRun> runs;
  for (auto& [job, curve] : curves) {
    if (curve.size() < 5) continue;
    std::ranges::sort(curve, std::greater{}, &zeus::Measurement::setting);
    std::vector<double> limits;
    for (const zeus::Measurement& one : curve) limits.push_back(one.setting);
    runs.push_back({zeus::Knob::make(zeus::KnobKind::kPowerLimit, limits).take(), curve, 1});
  }
  return runs;
}

TEST(LimitTraces, ProfilingIsGoodOnGpusItsConstantsWereNotFittedTo) {
  for (const std::string gpu : {"v100", "p100", "rtx6000", "a40"}) {
    const std::vector<RecordedRun> runs = runs_of(gpu);
    if (runs.empty()) GTEST_SKIP() << "needs the measured data sets (HARPE_SHARED)";
    int cases = 0, good = 0, fair = 0;
    double steps = 0;
    for (const RecordedRun& run : runs) {
      for (const double eta : {0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0}) {
        const zeus::Selector selector{.eta = eta};
        const zeus::ScoreWeights weights = weights_of(selector, run.knob[0]);
        const auto score = [&](std::size_t i) {
          return weights.of(run.measurements[i].time, run.measurements[i].energy);
        };
        const auto replay = replay_profiler(run, {.selector = selector}, 22, 0).take();
        const double lost =
            score(*replay.choice) / score(choose(run.measurements, selector).value()) - 1;
        ++cases;
        good += lost <= 0.01 ? 1 : 0;
        fair += lost <= 0.03 ? 1 : 0;
        steps +=
            static_cast<double>(replay.done_step) / (50 * static_cast<double>(run.knob.size()) + 2);
      }
    }
    std::printf(
        "%-8s %zu jobs, %d cases: %.1f %% within 1 %%, %.1f %% within 3 %%, %.0f %% of "
        "Zeus's steps\n",
        gpu.c_str(), runs.size(), cases, 100.0 * good / cases, 100.0 * fair / cases,
        100 * steps / cases);
    EXPECT_GE(30 * good, 24 * cases) << gpu;
  }
}

}  // namespace
}  // namespace harpe::lab
