// Speed of emulated clusters on one core, compared with their limits: GPT-3 on pipelines of 8
// stages, tensor 8, 96 micro-batches, 1,000 iterations with Harpe's policy and at all-max.
//
//   emulation_bench [--small]     --small: without the cluster of 16,384 GPUs with noise
//
// Every cluster is checked: without noise its energy equals that of its plan; with noise it saves
// about as much. The exit status is 1 if a result is wrong or slower than its limit.

#include <cmath>
#include <cstring>

#include "bench_input.h"
#include "harpe/lab/emulation/cluster_emulation.h"
#include "harpe/plan/frontier/frontier.h"

namespace harpe {
namespace {

constexpr int kStages = 8, kMicroBatches = 96, kGpusPerStage = 8, kIterations = 1000;
constexpr Watts kBlocking{83.64};

struct Size {
  const char* name;
  int pipelines;
  double noise;
  std::vector<double> slowdowns;  ///< one straggler per entry
  double bar;                     ///< seconds
};

lab::EmulationTerms terms_of(const Size& size) {
  lab::EmulationTerms terms{.iterations = kIterations};
  for (std::size_t i = 0; i < size.slowdowns.size(); ++i) {
    terms.stragglers.recurring.push_back({.slowdown = size.slowdowns[i],
                                          .pipeline = static_cast<int>(i),
                                          .between = Seconds{2000},
                                          .lasts = Seconds{1000.0 * static_cast<double>(i + 1)}});
  }
  return terms;
}

bool measure(const Frontier& frontier, const plan::PlanTable& table, const Size& size,
             Seconds late) {
  lab::EmulatedPipeline pipeline(frontier.pipeline(), frontier.profile(),
                                 std::vector<Watts>(kStages, kBlocking), LatencyByClock(late));
  const bench::Stopwatch watch;
  lab::EmulatedCluster cluster = lab::EmulatedCluster::make({.pipelines = size.pipelines,
                                                             .gpus_per_stage = kGpusPerStage,
                                                             .noise = size.noise,
                                                             .power_spread = 0.007},
                                                            std::move(pipeline))
                                     .value();
  const lab::EmulationOutcome outcome =
      lab::emulate(cluster, {.table = table}, terms_of(size), {}).value();
  const double seconds = watch.seconds();
  const double saves = 1 - table.plans().front().energy / table.all_max().energy;
  const double saved = outcome.saving(outcome.all_max);
  const bool straggles = !size.slowdowns.empty();
  const bool right = straggles ? saved > saves : std::abs(saved - saves) < 0.02;
  const bool in_time = seconds <= size.bar;
  std::printf("%-34s%9lld%8.1f %%%10.2f %%%10.2f s%9.0f s   %s%s\n", size.name,
              static_cast<long long>(cluster.gpus()), 100 * size.noise, 100 * saved, seconds,
              size.bar, right ? "right" : "WRONG", in_time ? "" : ", SLOW");
  std::fflush(stdout);
  return right && in_time;
}

int run(bool small) {
  const Profile profile = bench::base_profile("gpt3-175b");
  std::vector<double> ten;
  for (int i = 1; i <= 9; ++i) ten.push_back(1 + 0.04 * i);
  lab::StragglerTerms all;
  for (const double slowdown : ten) all.recurring.push_back({.slowdown = slowdown});
  const auto schedule = one_f_one_b({.stages = kStages, .micro_batches = kMicroBatches});
  const Frontier frontier =
      characterize(schedule, profile,
                   {.blocking_power = kBlocking, .gpus_per_stage = kGpusPerStage})
          .value();
  bool good = true;
  std::printf("%-34s%9s%10s%12s%12s%11s\n", "", "GPUs", "noise", "saved", "CPU", "bar");
  for (const Seconds late : {0_s, 0.01_s}) {
    std::printf("clocks %g ms late\n", 1e3 * late.value);
    const PlanOptions quick{.effort = Effort::kQuick, .switch_latency = LatencyByClock(late)};
    const Seconds fastest = frontier.fastest_plan(quick)->iteration_time;
    const plan::PlanTable table =
        plan::PlanTable::build(frontier, {.plans = 0,
                                          .times = lab::waits_for(
                                              all, fastest, frontier.all_max(quick).iteration_time),
                                          .plan = quick})
            .value();
    std::vector<Size> sizes = {{"all alike", 16, 0, {}, 1},
                               {"one straggler that comes and goes", 16, 0, {1.2}, 1},
                               {"ten kinds of pipelines", 1563, 0, ten, 1},
                               {"noise", 16, 0.01, {}, 10}};
    if (!small) sizes.push_back({"noise", 256, 0.01, {}, 180});
    for (const Size& size : sizes) good &= measure(frontier, table, size, late);
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace harpe

int main(int argc, char** argv) {
  return harpe::run(argc > 1 && std::strcmp(argv[1], "--small") == 0);
}
