// A table that parses can be written, and parses back the same. It gives every clock its latency,
// and no latency between two clocks is below both. A least latency is above 0 and not above the
// latency, also between clocks.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "harpe/plan/profile/latency_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto latency = harpe::plan::parse_latency_table(text, "input.csv");
  if (!latency.ok()) {
    if (latency.error().diagnostics.empty()) std::abort();
    return 0;
  }
  if (harpe::plan::parse_latency_table(harpe::plan::latency_table_csv(*latency), "again.csv")
          .value() != *latency) {
    std::abort();
  }
  const auto entries = latency->entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (latency->to(entries[i].clock) != entries[i].latency) std::abort();
    if (entries[i].least && entries[i].least->value <= 0) std::abort();
    if (latency->least_to(entries[i].clock) != entries[i].least.value_or(latency->shortest())) {
      std::abort();
    }
    if (i == 0) continue;
    if (entries[i - 1].clock >= entries[i].clock) std::abort();
    const harpe::Megahertz below{entries[i].clock.value - 1};
    if (latency->least_to(below) > latency->to(below)) std::abort();
    if (latency->to(below) != entries[i - 1].latency &&
        latency->to(below) != std::max(entries[i - 1].latency, entries[i].latency)) {
      std::abort();
    }
  }
  return 0;
}
