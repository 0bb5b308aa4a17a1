// A schedule that parses is valid, and parses back the same from both of its forms.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "harpe/plan/schedule/schedule.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto schedule = harpe::parse_schedule_json(text, "f");
  if (!schedule.ok()) {
    require(!schedule.error().diagnostics.empty());
    return 0;
  }
  require(harpe::validate(*schedule).ok());
  const auto from_json = harpe::parse_schedule_json(harpe::schedule_json(*schedule), "f");
  const auto from_csv = harpe::parse_torch_csv(harpe::torch_csv(*schedule), "f",
                                               harpe::TorchDialect::kDetect, schedule->copies);
  for (const auto* again : {&from_csv, &from_json}) {
    require(again->ok() && (*again)->lists == schedule->lists);
    require((*again)->placement == schedule->placement);
    require((*again)->copies == schedule->copies);
    require((*again)->micro_batches == schedule->micro_batches);
  }
  require((*from_json).name == schedule->name);
  return 0;
}
