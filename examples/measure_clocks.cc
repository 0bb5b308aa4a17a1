// How long a GPU takes to change its clock: on a simulated GPU in simulated time, so that minutes
// of measuring pass at once.

#include <cstdio>
#include <memory>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/hw/device.h"
#include "harpe/hw/sim/simulation.h"
#include "harpe/measure/switch_latency.h"

namespace {

using harpe::operator""_MHz;

harpe::Status run() {
  harpe::ManualClock clock;
  const auto simulation =
      HARPE_TRY(harpe::Simulation::make("[[gpu]]\nmodel = \"a100-sxm\"\n", "example", clock));
  const std::unique_ptr<harpe::Gpu> gpu = simulation->gpu(0);

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
