// The gap between plans whose clocks take effect late and the bound for such plans, at evenly
// spaced deadlines from the fastest plan to the plan of least energy, and the time to find them.
//
//   late_bench [DEADLINES [FILTER]]
//
// DEADLINES: 50 by default. FILTER: only rows whose name contains this text.
//
// The gap compares a plan's energy with `tight_bound_j` of frontier.json, the bound that a few
// flows prove along the frontier. "alone" is the largest gain, at seven of these deadlines, of a
// plan requested for that deadline alone over the plan along the frontier. Times are CPU times: of
// the first question, which finds the set of plans; of all plans along the frontier after it; and
// of one more deadline.

#include <algorithm>
#include <string>
#include <vector>

#include "bench_input.h"
#include "harpe/base/text.h"
#include "harpe/plan/frontier/frontier.h"

namespace harpe {
namespace {

struct Size {
  int stages, micro_batches;
};

/// Totals of the gaps of all rows.
struct Total {
  double sum = 0, most = 0, alone = 0;
  int plans = 0;
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
    const double first_seconds = first.seconds();
    const bench::Stopwatch rest;
    const Plan least = frontier.least_energy_plan(options).value();
    const Seconds low = fastest.iteration_time;
    std::vector<Seconds> times;
    for (int k = 0; k < deadlines_; ++k)
      times.push_back(low + (least.iteration_time - low) * (k / std::max(1.0, deadlines_ - 1.0)));
    std::vector<Plan> plans = frontier.plans_along(times, {}, options).value();
    plans.front() = fastest;
    plans.back() = least;
    const std::vector<Joules> bounds = frontier.tight_bounds_along(times, options);
    const double rest_seconds = rest.seconds();
    Total mine;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const double gap = 100 * ((plans[i].iteration_energy - bounds[i]) / bounds[i]);
      mine.sum += gap;
      mine.most = std::max(mine.most, gap);
      ++mine.plans;
      right_ &= gap >= -1e-9 && plans[i].iteration_time <= times[i] * (1 + 1e-9);
    }
    const bench::Stopwatch single;
    constexpr std::size_t kAlone = 7;
    for (std::size_t k = 0; k < kAlone; ++k) {
      const std::size_t i = k * (plans.size() - 1) / (kAlone - 1);
      const Plan alone = frontier.plan(times[i], options).value();
      mine.alone =
          std::max(mine.alone, 100 * (plans[i].iteration_energy / alone.iteration_energy - 1));
    }
    std::printf("%-30s%9.3f%9.3f%9.3f%10.2f%9.2f%9.2f\n", full.c_str(), mine.sum / mine.plans,
                mine.most, mine.alone, first_seconds, rest_seconds, single.seconds() / kAlone);
    std::fflush(stdout);
    all_.sum += mine.sum;
    all_.plans += mine.plans;
    all_.most = std::max(all_.most, mine.most);
    all_.alone = std::max(all_.alone, mine.alone);
  }

  static void print_head() {
    std::printf("%-30s%9s%9s%9s%10s%9s%9s\n", "", "gap %", "most", "alone %", "first s", "along s",
                "one s");
  }
  bool finish() const {
    std::printf("%-30s%9.3f%9.3f%9.3f\n", "all", all_.sum / std::max(1, all_.plans), all_.most,
                all_.alone);
    std::printf("%s\n", right_ ? "all deadlines and bounds hold" : "BROKEN");
    return right_;
  }

 private:
  int deadlines_;
  std::string filter_;
  Total all_;
  bool right_ = true;
};

/// Latencies with the shape measured on GPUs: some clocks take several times as long as others.
LatencyByClock table() {
  return LatencyByClock({{Megahertz{300}, Seconds{0.03}},
                         {Megahertz{900}, Seconds{0.012}},
                         {Megahertz{1200}, Seconds{0.006}},
                         {Megahertz{1410}, Seconds{0.009}},
                         {Megahertz{1980}, Seconds{0.02}}});
}

struct Input {
  std::string name;
  Profile profile;
  Watts blocking_power{83.64};
};

std::vector<Input> inputs() {
  std::vector<Input> found;
  for (const char* model : {"gpt3-175b", "bloom-176b"})
    found.push_back({model, bench::base_profile(model)});
  for (const char* name : {"a40", "h100-sxm", "b200-sxm"}) {
    const GpuModel& gpu = *find_gpu_model(name);
    found.push_back({name,
                     synthesize({.gpu = name, .stages = 8, .imbalance = 1.1, .seed = 2}).value(),
                     gpu.blocking_power});
  }
  return found;
}

int run(int deadlines, const std::string& filter) {
  Bench bench(deadlines, filter);
  const std::vector<Input> all = inputs();
  Bench::print_head();
  for (const Input& input : all) {
    for (const Size size : {Size{8, 12}, Size{8, 96}, Size{16, 64}}) {
      const Profile profile = size.stages <= input.profile.stages()
                                  ? input.profile
                                  : bench::stretched(input.profile, size.stages, true);
      for (const double ms : {5.0, 10.0, 30.0})
        bench.add(input.name, profile, input.blocking_power, size, shortest(ms) + "ms",
                  LatencyByClock(Seconds{ms * 1e-3}));
      bench.add(input.name, profile, input.blocking_power, size, "table", table());
      // Not a row with a limit: latencies longer than most computations.
      bench.add(input.name, profile, input.blocking_power, size, "outlasting 140ms",
                LatencyByClock(Seconds{0.14}));
    }
  }
  return bench.finish() ? 0 : 1;
}

}  // namespace
}  // namespace harpe

int main(int argc, char** argv) {
  return harpe::run(argc > 1 ? std::max(2, std::atoi(argv[1])) : 50, argc > 2 ? argv[2] : "");
}
