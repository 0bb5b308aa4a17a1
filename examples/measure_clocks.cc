// How long a GPU takes to change its clock, and what an operation of 20 ms costs at two clocks: on
// a simulated GPU in simulated time, so that minutes of measuring pass at once.

#include <cstdio>
#include <memory>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/hw/device.h"
#include "harpe/hw/sim/simulation.h"
#include "harpe/measure/short_operation.h"
#include "harpe/measure/switch_latency.h"

namespace {

using harpe::operator""_MHz;
using harpe::operator""_s;

harpe::Status run() {
  harpe::ManualClock clock;
  const auto simulation =
      HARPE_TRY(harpe::Simulation::make("[[gpu]]\nmodel = \"a100-sxm\"\n", "example", clock));
  const std::unique_ptr<harpe::Gpu> gpu = simulation->gpu(0);

  const harpe::SimulatedWork work = simulation->model_work(0, 0.02_s, 0.1);
  const auto operation = [&](int count) -> harpe::Result<harpe::OperationSpan> {
    harpe::OperationSpan span{.begin = clock.now(), .end = clock.now()};
    for (int i = 0; i < count; ++i) span.end = HARPE_TRY(simulation->run(0, work)).end;
    return span;
  };
  const auto costs = HARPE_TRY(harpe::measure_short_operation(
      *gpu, operation, {.clocks = {1410_MHz, 1200_MHz}, .budget = 60_s}, clock));
  for (const harpe::OperationCost& cost : costs.costs) {
    std::printf("%d MHz: %.2f ms, %.3f +- %.3f J\n", cost.clock.value, 1e3 * cost.time.value,
                cost.energy.value, cost.energy_error.value);
  }

  HARPE_TRY(simulation->set_load(0, 0.5));  // clocks show their true value only under load
  const auto latency = HARPE_TRY(
      harpe::measure_switch_latency(*gpu, {.clocks = {900_MHz, 1410_MHz}, .repeats = 10}, clock));
  for (const harpe::ClockSwitch& one : latency.switches) {
    if (const auto times = one.transition()) {
      std::printf("%d to %d MHz: %.1f ms\n", one.from.value, one.to.value,
                  1e3 * times->median.value);
    }
  }
  return harpe::ok_status();
}

}  // namespace

int main() {
  const harpe::Status done = run();
  if (done.ok()) return 0;
  std::fprintf(stderr, "%s\n", done.error().text().c_str());
  return harpe::exit_status(done.error().code);
}
