// The gap between plans of real clocks and the proven bound, at evenly spaced deadlines from T_min
// to T*, on profiles on which the search was tuned and on others, and the time to find the plans.
//
//   quality_bench [DEADLINES [WINDOWS [FILTER]]]
//
// DEADLINES: 50 by default. WINDOWS: how long the search continues after the default one, see
// PlanOptions::search_windows; 0 by default. FILTER: only rows whose name contains this text;
// `seed` excludes models of GPUs.
//
// The last table has the full plans of each GPU model, over its imbalances and seeds, as in
// docs/performance.md: mean and largest gap to the bound and to the tight bound.
//
// The gap compares the plan's energy with the lower bound at the deadline (not at the plan's own,
// shorter, time); "tight" compares the best plan with Frontier::tight_lower_bound there.

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
  friend bool operator==(const Size&, const Size&) = default;
};
constexpr Size kSizes[] = {{4, 8}, {8, 12}, {8, 32}, {16, 64}};

struct Summary {
  double gap_sum = 0, gap_most = 0, seconds_sum = 0, seconds_most = 0;
  int plans = 0;
  void add(double gap, double seconds) {
    gap_sum += gap;
    gap_most = std::max(gap_most, gap);
    seconds_sum += seconds;
    seconds_most = std::max(seconds_most, seconds);
    ++plans;
  }
  void add(const Summary& other) {
    gap_sum += other.gap_sum;
    gap_most = std::max(gap_most, other.gap_most);
    plans += other.plans;
  }
  double mean() const { return gap_sum / plans; }
  void print() const {
    std::printf("%10.4f%9.4f%9.1f%9.1f", mean(), gap_most, 1e3 * seconds_sum / plans,
                1e3 * seconds_most);
  }
};

/// One row: a pipeline, at all deadlines.
struct Row {
  std::string name;
  Profile profile;
  Watts blocking_power;
  Size size = {8, 12};
  bool tuned = false;      ///< the search's constants were tuned on it
  std::string model = {};  ///< the GPU model, if the profile is of one
};

struct Effects {
  Summary full, quick, along, longer, tight;
};

/// Full plans of one GPU model, by size in the order of `kSizes`.
struct ModelSummary {
  std::string name;
  std::vector<Summary> full, tight;
};

class Bench {
 public:
  Bench(int deadlines, std::int64_t windows, std::string filter)
      : deadlines_(deadlines), windows_(windows), filter_(std::move(filter)) {}

  void add(Row row) {
    row.name +=
        " " + std::to_string(row.size.stages) + "x" + std::to_string(row.size.micro_batches);
    if (row.name.find(filter_) != std::string::npos) measure(row);
  }
  void print_totals() const {
    if (tuned_.full.plans > 0) print("tuned on", tuned_);
    if (judged_.full.plans > 0) print("judged on", judged_);
  }
  void print_models() const {
    for (const ModelSummary& model : models_) {
      std::printf("| %s |", model.name.c_str());
      for (std::size_t i = 0; i < std::size(kSizes); ++i) {
        if (const Summary& full = model.full[i]; full.plans > 0)
          std::printf(" %.3f %%, %.3f %%", full.mean(), full.gap_most);
        if (const Summary& tight = model.tight[i]; tight.plans > 0)
          std::printf("; %.3f %%, %.3f %%", tight.mean(), tight.gap_most);
        std::printf(" |");
      }
      std::printf("\n");
    }
  }
  bool right() const { return right_; }

  static void print_head() {
    std::printf("%-32s", "");
    for (const char* kind : {"full", "tight", "quick", "along", "longer"})
      std::printf("%10s%9s%9s%9s", (std::string(kind) + " gap%").c_str(), "most", "mean ms",
                  "most");
    std::printf("\n");
  }

 private:
  void measure(const Row& row) {
    const Frontier frontier =
        characterize(
            one_f_one_b({.stages = row.size.stages, .micro_batches = row.size.micro_batches}),
            row.profile, {.blocking_power = row.blocking_power})
            .value();
    Effects mine;
    Effects& all = row.tuned ? tuned_ : judged_;
    std::vector<Seconds> times;
    const auto take = [&](Summary Effects::* which, const Plan& plan, Joules bound,
                          Seconds deadline, double seconds) {
      const double gap = 100 * ((plan.iteration_energy - bound) / bound);
      (mine.*which).add(gap, seconds);
      (all.*which).add(gap, seconds);
      right_ &= plan.iteration_time.value <= deadline.value * (1 + 1e-9) && plan.gap() >= 0;
    };
    for (int k = 0; k < deadlines_; ++k) {
      const Seconds low = frontier.min_time();
      times.push_back(low +
                      (frontier.least_energy_time() - low) * (k / std::max(1.0, deadlines_ - 1.0)));
      const auto plan = [&](Summary Effects::* which, const PlanOptions& options) {
        const bench::Stopwatch watch;
        Plan found = frontier.plan(times.back(), options).value();
        take(which, found, frontier.lower_bound(times.back()), times.back(), watch.seconds());
        return found;
      };
      plan(&Effects::quick, {.effort = Effort::kQuick});
      Plan best = plan(&Effects::full, {});
      if (windows_ > 0) best = plan(&Effects::longer, {.search_windows = windows_});
      const bench::Stopwatch watch;
      const Joules tight = frontier.tight_lower_bound(times.back());
      take(&Effects::tight, best, tight, times.back(), watch.seconds());
    }
    const bench::Stopwatch watch;
    const std::vector<Plan> together = frontier.plans_along(times).value();
    const double seconds = watch.seconds() / deadlines_;
    for (std::size_t k = 0; k < times.size(); ++k)
      take(&Effects::along, together[k], frontier.lower_bound(times[k]), times[k], seconds);
    print(row.name, mine);
    if (!row.model.empty()) add_to_model(row, mine);
  }
  void add_to_model(const Row& row, const Effects& effects) {
    const std::vector<Summary> none(std::size(kSizes));
    if (models_.empty() || models_.back().name != row.model)
      models_.push_back({.name = row.model, .full = none, .tight = none});
    const auto size =
        static_cast<std::size_t>(std::ranges::find(kSizes, row.size) - std::begin(kSizes));
    models_.back().full[size].add(effects.full);
    models_.back().tight[size].add(effects.tight);
  }
  static void print(const std::string& name, const Effects& effects) {
    std::printf("%-32s", name.c_str());
    for (const Summary* s : {&effects.full, &effects.tight, &effects.quick, &effects.along})
      s->print();
    if (effects.longer.plans > 0) effects.longer.print();
    std::printf("\n");
    std::fflush(stdout);
  }

  int deadlines_;
  std::int64_t windows_;
  std::string filter_;
  Effects tuned_, judged_;
  std::vector<ModelSummary> models_;
  bool right_ = true;
};

constexpr Watts kBlockingPower{83.64};

void add_a100(Bench& bench) {
  for (const char* model : {"gpt3-175b", "bloom-176b"}) {
    const Profile profile = bench::base_profile(model);
    for (const Size size : {Size{4, 8}, Size{8, 12}, Size{8, 32}, Size{8, 96}, Size{16, 64}}) {
      const bool as_measured = size.stages <= profile.stages();
      bench.add({.name = model,
                 .profile = as_measured ? profile : bench::stretched(profile, size.stages, true),
                 .blocking_power = kBlockingPower,
                 .size = size,
                 .tuned = model == std::string("gpt3-175b")});
    }
  }
}

void add_synthetic(Bench& bench) {
  for (const GpuModel& gpu : gpu_models()) {
    for (const double imbalance : {1.0, 1.1, 1.3}) {
      for (const Size size : kSizes) {
        // The profiles that the search's constants were tuned on have seed 1; every GPU is judged
        // by another seed.
        for (const std::uint64_t seed : {1, 2}) {
          bench.add({.name = std::string(gpu.name) + " " + shortest(imbalance) + " seed " +
                             std::to_string(seed),
                     .profile = synthesize({.gpu = gpu.name,
                                            .stages = size.stages,
                                            .imbalance = imbalance,
                                            .seed = seed})
                                    .value(),
                     .blocking_power = gpu.blocking_power,
                     .size = size,
                     .tuned = seed == 1,
                     .model = std::string(gpu.name)});
        }
      }
    }
  }
}

void add_measured(Bench& bench) {
  const auto folder = measured_data() / "sosp24/measured";
  for (const auto& [model, micro_batches] :
       std::vector<std::pair<std::string, int>>{{"bert-1.3b", 32},
                                                {"bloom-3b", 128},
                                                {"gpt3-1.3b", 128},
                                                {"t5-3b", 32},
                                                {"wide-resnet101", 24}}) {
    const auto path = folder / (model + ".csv");
    if (!std::filesystem::exists(path)) continue;
    bench.add({.name = model,
               .profile = read_profile(path).value(),
               .blocking_power = kBlockingPower,
               .size = {4, micro_batches}});
  }
}

int run(int deadlines, std::int64_t windows, const std::string& filter) {
  Bench bench(deadlines, windows, filter);
  Bench::print_head();
  add_a100(bench);
  add_measured(bench);
  add_synthetic(bench);
  bench.print_totals();
  bench.print_models();
  std::printf("%s\n", bench.right() ? "all deadlines and bounds hold" : "BROKEN");
  return bench.right() ? 0 : 1;
}

}  // namespace
}  // namespace harpe

int main(int argc, char** argv) {
  return harpe::run(argc > 1 ? std::max(2, std::atoi(argv[1])) : 50,
                    argc > 2 ? std::max(0, std::atoi(argv[2])) : 0, argc > 3 ? argv[3] : "");
}
