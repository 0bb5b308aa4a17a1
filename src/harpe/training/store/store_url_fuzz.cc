// Whatever a URL says: what is read reads back as the same, by Harpe and by libpq, what is not has
// an error that says why, and the text for messages holds no password.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "harpe/training/store/store_url.h"
#include "harpe/training/store/store_url_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto url = harpe::StoreUrl::parse(text);
  if (!url.ok()) {
    if (url.error().diagnostics.empty() || url.error().code != harpe::ErrorCode::kInvalidInput)
      std::abort();
    return 0;
  }
  const auto again = harpe::StoreUrl::parse(url->text_with_password());
  if (!again.ok() || *again != *url) std::abort();
  const auto shown = harpe::StoreUrl::parse(url->text());
  if (!shown.ok() || shown->password != (url->password.empty() ? "" : "***")) std::abort();
  const harpe::StoreUrl known = harpe::known_to_libpq(*url);
  if (url->kind == harpe::StoreUrl::Kind::kPostgresql &&
      harpe::read_by_libpq(known.text_with_password()) != harpe::expected_of_libpq(known)) {
    std::abort();
  }
  harpe::StoreUrl other = *url;
  other.password = url->password.empty() ? "" : "another";
  if (other.text() != url->text()) std::abort();
  return 0;
}
