// The tables of Perseus's public data: any bytes give values in range or diagnostics.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "harpe/base/check.h"
#include "harpe/lab/reproduce/artifact.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  harpe::Diagnostics frontier, envpipe, constants, plans;
  for (const auto& point : harpe::lab::parse_published_frontier(text, frontier))
    HARPE_CHECK(!(point.energy.value <= 0), "energies are above 0");
  (void)harpe::lab::parse_published_envpipe(text, envpipe);
  auto workloads = harpe::lab::parse_constants(text, constants);
  if (!constants.empty()) workloads = {{.workload = "bloom-3b", .gpu = "a100"}};
  harpe::lab::parse_measured_plans(text, workloads, plans);
  return 0;
}
