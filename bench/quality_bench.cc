// How far plans of real clocks are above the proven bound, at evenly spaced deadlines from T_min to
// T*, and how long they take: searched for on their own, quickly, and all together along the
// frontier, as for a report.
//
//   quality_bench [DEADLINES]     default 50
//
// The gap is that of the plan's energy to the lower bound at the deadline (not at the plan's own,
// shorter, time).

#include <algorithm>
#include <vector>

#include "bench_input.h"
#include "harpe/frontier/frontier.h"

namespace harpe {
namespace {

struct Summary {
  double gap_sum = 0, gap_most = 0, seconds_sum = 0, seconds_most = 0;
  void add(double gap, double seconds) {
    gap_sum += gap;
    gap_most = std::max(gap_most, gap);
    seconds_sum += seconds;
    seconds_most = std::max(seconds_most, seconds);
  }
};

bool measure(const std::string& model, const Profile& profile, int micro_batches, int deadlines) {
  const Frontier frontier = characterize(one_f_one_b({.stages = 8, .micro_batches = micro_batches}),
                                         profile, {.blocking_power = 83.64_W})
                                .value();
  Summary quick, full, along;
  bool right = true;
  std::vector<Seconds> times;
  for (int k = 0; k < deadlines; ++k) {
    const Seconds low = frontier.min_time();
    const Seconds deadline =
        low + (frontier.least_energy_time() - low) * (k / std::max(1.0, deadlines - 1.0));
    for (Summary* summary : {&quick, &full}) {
      const bench::Stopwatch watch;
      const Plan plan =
          frontier.plan(deadline, {.effort = summary == &quick ? Effort::kQuick : Effort::kFull})
              .value();
      const double seconds = watch.seconds();
      const Joules bound = frontier.lower_bound(deadline);
      summary->add(100 * ((plan.iteration_energy - bound) / bound), seconds);
      right &= plan.iteration_time.value <= deadline.value * (1 + 1e-9) && plan.gap() >= 0;
    }
    times.push_back(deadline);
  }
  const bench::Stopwatch watch;
  const std::vector<Plan> together = frontier.plans_along(times).value();
  const double seconds = watch.seconds() / deadlines;
  for (std::size_t k = 0; k < times.size(); ++k) {
    const Joules bound = frontier.lower_bound(times[k]);
    along.add(100 * ((together[k].iteration_energy - bound) / bound), seconds);
    right &= together[k].iteration_time.value <= times[k].value * (1 + 1e-9);
  }
  const double n = deadlines;
  std::printf("%-11s 8 x %-4d", model.c_str(), micro_batches);
  for (const Summary* s : {&full, &quick, &along}) {
    std::printf("%11.4f%9.4f%11.1f%9.1f", s->gap_sum / n, s->gap_most, 1e3 * s->seconds_sum / n,
                1e3 * s->seconds_most);
  }
  std::printf("%10.1f   %s\n", static_cast<double>(frontier.memory_bytes()) / (1 << 20),
              right ? "hold" : "BROKEN");
  std::fflush(stdout);
  return right;
}

int run(int deadlines) {
  bool right = true;
  std::printf("%-20s%40s%40s%40s%10s\n", "", "full plan: gap %  most   mean ms   most",
              "quick plan: gap %  most   mean ms   most", "along: gap %  most   mean ms   most",
              "MiB");
  for (const char* model : {"gpt3-175b", "bloom-176b"}) {
    const Profile profile = bench::base_profile(model);
    for (const int micro_batches : {12, 96})
      right &= measure(model, profile, micro_batches, deadlines);
  }
  return right ? 0 : 1;
}

}  // namespace
}  // namespace harpe

int main(int argc, char** argv) {
  return harpe::run(argc > 1 ? std::max(2, std::atoi(argv[1])) : 50);
}
