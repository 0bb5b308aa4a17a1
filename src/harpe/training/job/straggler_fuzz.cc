// Any text as the declaration of a straggler, and as a pace.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "harpe/training/job/job_status_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto pace = harpe::training::parse_pace(text); pace.ok() && *pace) {
    const auto again = harpe::training::parse_pace(harpe::training::pace_json(**pace));
    if (!again.ok() || *again != *pace) std::abort();
  }
  const auto straggler =
      harpe::training::parse_straggler(text, 3, harpe::Seconds{1000}, harpe::Seconds{1.8e9});
  if (!straggler.ok()) {
    if (straggler.error().diagnostics.empty()) std::abort();
    return 0;
  }
  if (straggler->pipeline != 3 || !(straggler->factor >= 1)) std::abort();
  return 0;
}
