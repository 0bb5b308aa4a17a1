// Any bytes as gzip data are decompressed within the limit, or refused with the name of the file.
// Any compressed bytes decompress to the same bytes.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "harpe/command/input/gzip_testing.h"
#include "harpe/command/input/input_file.h"

namespace {

constexpr std::uint64_t kLimit = 1 << 20;

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto content = harpe::command::gunzip(bytes, "f", kLimit);
  if (content.ok()) {
    require(content->size() <= kLimit && harpe::command::is_gzip(bytes));
  } else {
    require(content.error().diagnostics.front().file == "f");
  }
  if (size > kLimit) return 0;
  const auto again = harpe::command::gunzip(harpe::command::gzipped(bytes), "f", kLimit);
  require(again.ok() && *again == bytes);
  // Two members in a row are read as one.
  if (content.ok()) {
    const auto both = harpe::command::gunzip(bytes + bytes, "f", 2 * kLimit);
    require(both.ok() && *both == *content + *content);
  }
  return 0;
}
