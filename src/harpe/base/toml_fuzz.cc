// Parsing any bytes gives a value whose positions lie in the text, or diagnostics that name a line.
// A second parse gives the same.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "harpe/base/fields.h"
#include "harpe/base/toml.h"

namespace {

using harpe::JsonValue;

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const JsonValue& value, int lines) {
  require(value.line >= 0 && value.line <= lines);
  for (const JsonValue& item : value.items) check(item, lines);
  for (const auto& [key, member] : value.members) check(member, lines);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = harpe::parse_toml(text, "f");
  const auto again = harpe::parse_toml(text, "f");
  require(value.ok() == again.ok());
  if (!value.ok()) {
    require(!value.error().diagnostics.empty() && value.error().text() == again.error().text());
    return 0;
  }
  int lines = 1;
  for (const char c : text) lines += c == '\n';
  check(*value, lines);
  harpe::Diagnostics diagnostics("f");
  harpe::Fields fields(*value, "the file", diagnostics);
  fields.number("a", 0, 1);
  fields.range("r", 0, 1);
  fields.texts("t");
  fields.objects("o");
  fields.finish();
  return 0;
}
