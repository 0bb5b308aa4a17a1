// A certificate that parses can be written, and parses back the same.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "harpe/plan/frontier/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto certificate = harpe::parse_certificate_json(text, "f");
  if (!certificate.ok()) {
    if (certificate.error().diagnostics.empty()) std::abort();
    return 0;
  }
  const std::string json = harpe::certificate_json(*certificate);
  const auto again = harpe::parse_certificate_json(json, "f");
  if (!again.ok() || again->node_flow != certificate->node_flow || again->end != certificate->end ||
      again->deadline != certificate->deadline || harpe::certificate_json(*again) != json) {
    std::abort();
  }
  return 0;
}
