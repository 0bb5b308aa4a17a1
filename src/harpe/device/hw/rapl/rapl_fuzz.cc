// For any file contents, totals never fall, and names that are read can be written and read again.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "harpe/device/hw/rapl/rapl.h"

namespace {

void check_name(std::string_view text) {
  const auto name = harpe::device::parse_package_name(text);
  if (!name) return;
  const std::string written =
      "package-" + std::to_string(name->package) + "-die-" + std::to_string(name->die);
  if (harpe::device::parse_package_name(written) != name) std::abort();
}

}  // namespace

/// Input: a range, then readings a second apart, one per line.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  check_name(text);
  std::optional<harpe::device::EnergyCounter> counter;
  harpe::Instant now;
  double last = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const auto value = harpe::device::parse_microjoules(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!counter) {
      counter.emplace(value.value_or(0));
      continue;
    }
    now.ns += 1'000'000'000;
    if (!value) continue;
    const double total = counter->add(*value, now).value;
    if (!(total >= last)) std::abort();
    last = total;
  }
  return 0;
}
