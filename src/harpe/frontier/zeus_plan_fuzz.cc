// What parses has stages and clocks in range, and comes back the same from its plain form.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "harpe/frontier/zeus_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto stages = harpe::parse_zeus_plan(text, "f");
  if (!stages.ok()) {
    if (stages.error().faults.empty()) std::abort();
    return 0;
  }
  std::string plain = "[";
  for (const auto& stage : *stages) {
    if (stage.empty()) std::abort();
    plain += "[";
    for (const auto& i : stage) {
      if (i.clock.value < 0 || i.clock.value > 100'000) std::abort();
      const std::string clock = std::to_string(i.clock.value);
      const char* const quote = i.name.find('\'') == std::string::npos ? "'" : "\"";
      plain += i.name.empty() ? clock + "," : "(" + (quote + i.name) + quote + "," + clock + "),";
    }
    plain += "],";
  }
  const auto again = harpe::parse_zeus_plan(plain + "]", "f");
  if (!again.ok() || *again != *stages) std::abort();
  return 0;
}
