// A profile that parses can be written, and parses back the same.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "harpe/plan/profile/profile.h"

namespace {

bool equal(const harpe::Profile& a, const harpe::Profile& b) {
  if (a.entries().size() != b.entries().size() || a.has_chunks() != b.has_chunks() ||
      a.stages() != b.stages()) {
    return false;
  }
  for (std::size_t i = 0; i < a.entries().size(); ++i) {
    const harpe::InstructionProfile &x = a.entries()[i], &y = b.entries()[i];
    if (x.stage != y.stage || x.chunk != y.chunk || x.kind != y.kind || x.points != y.points) {
      return false;
    }
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto profile = harpe::parse_profile(text, "input.csv");
  if (!profile.ok()) {
    if (profile.error().diagnostics.empty()) std::abort();
    return 0;
  }
  const auto again = harpe::parse_profile(harpe::profile_csv(*profile, text), "again.csv");
  if (!again.ok() || !equal(*profile, *again)) std::abort();
  if (profile->is_synthetic() && !again->is_synthetic()) std::abort();
  return 0;
}
