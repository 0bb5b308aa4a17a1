// How far plans whose clocks come late are above the bound for such plans, at evenly spaced
// deadlines from the fastest to that of least energy, and how long they take.
//
//   late_bench [DEADLINES [FILTER]]
//
// DEADLINES: 50 where not given. FILTER: only rows that have this text in their name.
//
// The gap is that of the plan's energy to Frontier::tight_lower_bound at the deadline.

#include <algorithm>
#include <string>
#include <vector>

#include "bench_input.h"
#include "harpe/base/text.h"
#include "harpe/frontier/frontier.h"

namespace harpe {
namespace {

struct Size {
  int stages, micro_batches;
};

class Bench {
 public:
  Bench(int deadlines, std::string filter) : deadlines_(deadlines), filter_(std::move(filter)) {}

  void add(const std::string& name, const Profile& profile, Watts blocking, Size size,
           const std::string& late, const LatencyByClock& latency) {
    const std::string full = name + " " + std::to_string(size.stages) + "x" +
                             std::to_string(size.micro_batches) + " " + late;
    if (full.find(filter_) == std::string::npos) return;
    const Frontier frontier =
        characterize(one_f_one_b({.stages = size.stages, .micro_batches = size.micro_batches}),
                     profile, {.blocking_power = blocking})
            .value();
    const PlanOptions options{.switch_latency = latency};
    const bench::Stopwatch first;
    const Plan fastest = frontier.fastest_plan(options).value();
    const double fastest_seconds = first.seconds();
    const Seconds low = fastest.iteration_time;
    double sum = 0, most = 0, plan_seconds = 0, bound_seconds = 0;
    for (int k = 0; k < deadlines_; ++k) {
      const Seconds time =
          low + (frontier.least_energy_time() - low) * (k / std::max(1.0, deadlines_ - 1.0));
      const bench::Stopwatch planning;
      const Plan plan = frontier.plan(time, options).value();
      plan_seconds += planning.seconds();
      const bench::Stopwatch bounding;
      const Joules bound = frontier.tight_lower_bound(time, options);
      bound_seconds += bounding.seconds();
      const double gap = 100 * ((plan.iteration_energy - bound) / bound);
      sum += gap;
      most = std::max(most, gap);
      if (deadlines_ <= 12) std::printf(" %.3f", gap);
    }
    if (deadlines_ <= 12) std::printf("\n");
    std::printf("%-34s%9.3f%9.3f%10.2f%10.2f%10.2f\n", full.c_str(), sum / deadlines_, most,
                fastest_seconds, plan_seconds / deadlines_, bound_seconds / deadlines_);
    std::fflush(stdout);
  }

 private:
  int deadlines_;
  std::string filter_;
};

int run(int deadlines, const std::string& filter) {
  Bench bench(deadlines, filter);
  std::printf("%-34s%9s%9s%10s%10s%10s\n", "", "gap%", "most", "fastest s", "plan s", "bound s");
  struct Input {
    std::string name;
    Profile profile;
    Watts blocking{83.64};
  };
  std::vector<Input> inputs;
  for (const char* model : {"gpt3-175b", "bloom-176b"})
    inputs.push_back({model, bench::base_profile(model)});
  for (const char* gpu : {"a40", "h100-sxm", "b200-sxm"}) {
    const auto models = gpu_models();
    const auto found = std::ranges::find(models, std::string(gpu), &GpuModel::name);
    if (found == models.end()) continue;
    inputs.push_back({gpu,
                      synthesize({.gpu = gpu, .stages = 8, .imbalance = 1.1, .seed = 2}).value(),
                      found->blocking_power});
  }
  for (const Input& input : inputs) {
    for (const Size size : {Size{8, 12}, Size{8, 96}, Size{16, 64}}) {
      const Profile profile = size.stages <= input.profile.stages()
                                  ? input.profile
                                  : bench::stretched(input.profile, size.stages, true);
      for (const double ms : {5.0, 10.0, 30.0})
        bench.add(input.name, profile, input.blocking, size, shortest(ms) + "ms",
                  LatencyByClock(Seconds{ms * 1e-3}));
    }
  }
  return 0;
}

}  // namespace
}  // namespace harpe

int main(int argc, char** argv) {
  return harpe::run(argc > 1 ? std::max(2, std::atoi(argv[1])) : 50, argc > 2 ? argv[2] : "");
}
