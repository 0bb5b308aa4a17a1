// What parses is valid, and comes back the same from both forms.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "harpe/schedule/schedule.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using harpe::TorchDialect;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto dialect : {TorchDialect::kDetect, TorchDialect::kNew, TorchDialect::kOld}) {
    const auto schedule = harpe::parse_torch_csv(text, "f", dialect);
    if (!schedule.ok()) {
      require(!schedule.error().diagnostics.empty());
      continue;
    }
    require(harpe::validate(*schedule).ok());
    const auto from_csv = harpe::parse_torch_csv(harpe::torch_csv(*schedule), "f");
    const auto from_json = harpe::parse_schedule_json(harpe::schedule_json(*schedule), "f");
    for (const auto* again : {&from_csv, &from_json}) {
      require(again->ok() && (*again)->lists == schedule->lists);
      require((*again)->placement == schedule->placement);
      require((*again)->micro_batches == schedule->micro_batches);
    }
  }
  return 0;
}
