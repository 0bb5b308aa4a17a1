// Any bytes as a profile give an error, or a profile that can be written and read again.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "harpe/zeus/power_limit/limit_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto profile = harpe::zeus::parse_limit_profile(text, "fuzz");
  if (!profile.ok()) return 0;
  const auto again =
      harpe::zeus::parse_limit_profile(harpe::zeus::limit_profile_json(*profile), "again");
  if (!again.ok() || again->measurements != profile->measurements ||
      again->key.has_value() != profile->key.has_value() ||
      again->measured_at != profile->measured_at) {
    std::abort();
  }
  // A setting can be chosen from every profile that was read.
  if (!harpe::zeus::choose(profile->measurements, {}).ok()) std::abort();
  return 0;
}
