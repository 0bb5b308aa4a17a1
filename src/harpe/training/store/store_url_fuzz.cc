// Any URL: a refused one has an error with the reason. The text for messages of an accepted one
// reads back as the same URL, without the password.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "harpe/training/store/store_url.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  auto url = harpe::training::StoreUrl::parse(text);
  if (!url.ok()) {
    if (url.error().diagnostics.empty() || url.error().code != harpe::ErrorCode::kInvalidInput)
      std::abort();
    return 0;
  }
  const auto shown = harpe::training::StoreUrl::parse(url->text);
  if (!shown.ok() || shown->text != url->text || shown->path != url->path) std::abort();
  if (!url->parameter("password").empty()) url->parameters["password"] = "***";
  if (shown->parameters != url->parameters) std::abort();
  return 0;
}
