// Speed of the frontier solver compared with the textbook parametric cut in the same run, and its
// growth with size.
//
//   solver_bench [--growth]     with --growth: from 1,024 to 65,536 instructions, without the
//   textbook version
//
// Every result is checked: both versions must find the same breakpoints, and the last state must
// be optimal.

#include <sys/resource.h>

#include <cstring>

#include "bench_input.h"
#include "harpe/plan/flow/sweep.h"
#include "harpe/plan/flow/textbook_cut_testing.h"
#include "harpe/plan/frontier/problem.h"

namespace harpe {
namespace {

plan::Problem problem_of(const Profile& profile, int stages, int micro_batches, bool unequal) {
  const Result<Schedule> schedule = one_f_one_b({.stages = stages, .micro_batches = micro_batches});
  const Result<Pipeline> pipeline = Pipeline::build(*schedule);
  return plan::make_problem(*pipeline, bench::stretched(profile, stages, unequal),
                            {.blocking_power = 83.64_W})
      .value();
}

double peak_gib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
}

struct Size {
  int stages, micro_batches;
  bool unequal;
};

bool compare(const Profile& profile, const Size& size) {
  const plan::Problem problem = problem_of(profile, size.stages, size.micro_batches, size.unequal);
  const plan::flow::Network& network = problem.network;
  const plan::flow::State start = plan::flow::slowest(network);
  const bench::Stopwatch textbook_watch;
  const plan::flow::TextbookResult expected = plan::flow::textbook_cut(network, start);
  const double textbook = textbook_watch.seconds();
  double best = 1e300;
  plan::flow::CostCurve curve;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const bench::Stopwatch watch;
    curve = plan::flow::sweep(network);
    best = std::min(best, watch.seconds());
  }
  const bool right = curve.breakpoints == expected.breakpoints &&
                     curve.shortest == expected.state.horizon(network) &&
                     plan::flow::is_optimal(network, curve.checkpoints.back());
  std::printf("%3d x %-5d%-8s%8d%10lld%12.4f%12.4f%9.1f   %s\n", size.stages, size.micro_batches,
              size.unequal ? " unequal" : "", 2 * size.stages * size.micro_batches,
              static_cast<long long>(curve.steps), textbook, best, textbook / best,
              right ? "same" : "DIFFERENT");
  return right;
}

bool grow(const Profile& profile, const Size& size) {
  const bench::Stopwatch watch;
  const plan::Problem problem = problem_of(profile, size.stages, size.micro_batches, size.unequal);
  const double built = watch.seconds();
  const bench::Stopwatch sweep_watch;
  const plan::flow::CostCurve curve = plan::flow::sweep(problem.network);
  const double seconds = sweep_watch.seconds();
  const bool right = plan::flow::is_optimal(problem.network, curve.checkpoints.back());
  std::printf("%3d x %-5d%8d%10zu%10lld%12.3f%12.3f%10.1f%10.2f   %s\n", size.stages,
              size.micro_batches, 2 * size.stages * size.micro_batches, curve.breakpoints.size(),
              static_cast<long long>(curve.steps), built, seconds,
              static_cast<double>(curve.memory_bytes()) / (1 << 20), peak_gib(),
              right ? "optimal" : "NOT OPTIMAL");
  std::fflush(stdout);
  return right;
}

int run(bool growth) {
  const Profile profile = bench::base_profile("gpt3-175b");
  bool right = true;
  if (growth) {
    std::printf("%-11s%8s%10s%10s%12s%12s%10s%10s\n", "stages x m", "instr.", "slopes", "steps",
                "build s", "sweep s", "MiB", "peak GiB");
    for (const Size& size :
         {Size{8, 64, true}, Size{16, 64, true}, Size{16, 128, true}, Size{32, 128, true},
          Size{32, 256, true}, Size{64, 256, true}, Size{64, 512, true}}) {
      right &= grow(profile, size);
    }
  } else {
    std::printf("%-19s%8s%10s%12s%12s%9s\n", "stages x m", "instr.", "steps", "textbook s",
                "harpe s", "ratio");
    for (const Size& size : {Size{8, 12, false}, Size{8, 32, false}, Size{8, 96, false},
                             Size{8, 128, false}, Size{16, 64, true}, Size{8, 512, false}}) {
      right &= compare(profile, size);
    }
  }
  return right ? 0 : 1;
}

}  // namespace
}  // namespace harpe

int main(int argc, char** argv) {
  return harpe::run(argc > 1 && std::strcmp(argv[1], "--growth") == 0);
}
