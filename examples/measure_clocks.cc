// Measures how long a GPU takes to change its clock, and the cost of an operation at two clocks: on
// a simulated GPU in simulated time, so that nothing waits.

#include <cstdio>
#include <memory>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/device/hw/device.h"
#include "harpe/device/hw/sim/simulation.h"
#include "harpe/device/measure/switch_latency.h"

namespace {

using harpe::operator""_MHz;
using harpe::operator""_s;

harpe::Status run() {
  harpe::ManualClock clock;
  const auto simulation =
      HARPE_TRY(harpe::Simulation::make("[[gpu]]\nmodel = \"a100-sxm\"\n", "example", clock));
  const std::unique_ptr<harpe::Gpu> gpu = simulation->gpu(0);
  const std::vector<harpe::Megahertz> clocks = {900_MHz, 1410_MHz};

  const harpe::SimulatedWork work = simulation->model_work(0, 2_s, 0.1);
  for (const harpe::Megahertz one : clocks) {
    HARPE_TRY(gpu->set_locked_clocks(harpe::ClockDomain::kGraphics, {one, one}));
    const harpe::Joules before = simulation->truth(0).energy;
    const auto span = HARPE_TRY(simulation->run(0, work));
    std::printf("%d MHz: %.2f s, %.0f J\n", one.value, (span.end - span.begin).value,
                (simulation->truth(0).energy - before).value);
  }
  HARPE_TRY(gpu->reset_locked_clocks(harpe::ClockDomain::kGraphics));

  HARPE_TRY(simulation->set_load(0, 0.5));  // clocks show their true value only under load
  const auto latency =
      HARPE_TRY(harpe::measure_switch_latency(*gpu, {.clocks = clocks, .repeats = 10}, clock));
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
