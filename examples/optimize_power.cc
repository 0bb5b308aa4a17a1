// Finds the clock or power limit for a training's GPUs while it trains: some epochs of a loop that
// computes nothing, on simulated GPUs, through the node's agent.
//
//   harpe agent --policy policy.toml --simulate gpus.toml --socket agent.sock &
//   HARPE_SIMULATION=gpus.toml HARPE_AGENT_SOCKET=agent.sock optimize_power
//
// In a job of several processes each has its own optimizer; they agree through the job's
// reductions.

#include <cstdio>
#include <cstdlib>
#include <span>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/zeus/tuning/power_optimizer.h"

namespace {

/// For a job of one process. With MPI, use MPI_Allreduce in place, of doubles, with MPI_SUM.
harpe::Status sum_over_processes(std::span<double> /*values*/) {
  return harpe::ok_status();
}
harpe::Status largest_over_processes(std::span<double> /*values*/) {
  return harpe::ok_status();
}

harpe::Status train(int epochs, int steps) {
  harpe::Clock& clock = harpe::system_clock();
  const auto optimizer = HARPE_TRY(harpe::PowerOptimizer::start(
      {.most_slowdown = 0.03}, {.sum = sum_over_processes, .max = largest_over_processes}));
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (int step = 0; step < steps; ++step) {
      optimizer->on_step_begin();
      clock.sleep_until(clock.now() + harpe::Seconds{0.02});  // replace with a training step
    }
    optimizer->on_epoch_end();
  }
  const harpe::PowerReport& report = optimizer->finish();
  if (!report.why_nothing_was_set.empty()) {
    std::printf("nothing was set: %s\n", report.why_nothing_was_set.c_str());
  } else {
    std::printf("%s; saved %.0f +- %.0f J\n", report.setting.c_str(), report.saved.value,
                report.error.value);
  }
  return harpe::ok_status();
}

}  // namespace

int main() {
  const harpe::Status trained = train(4, 100);
  if (trained.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "%s\n", trained.error().text().c_str());
  return EXIT_FAILURE;
}
