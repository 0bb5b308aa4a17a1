// Client options as text from programs in other languages.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "harpe/training/client/rank_client_options.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto options = harpe::parse_rank_client_options(text);
  if (!options.ok()) return 0;
  const auto whole = harpe::complete(*std::move(options), [](const char*) { return nullptr; });
  if (!whole.ok() || whole->server.empty()) return 0;
  if (!whole->coordinates || !whole->spec.shape.holds(*whole->coordinates)) std::abort();
  if (whole->job.empty() || whole->job.find('/') != std::string::npos) std::abort();
  return 0;
}
