// From any table of clocks, the clocks that are read rise, and can be written and read again.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "harpe/device/hw/rocm/amd_sysfs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto clocks = harpe::device::parse_clock_levels(text);
  std::string written;
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    if (clocks[i].value <= 0 || (i > 0 && clocks[i] <= clocks[i - 1])) std::abort();
    written += std::to_string(i) + ": " + std::to_string(clocks[i].value) + "Mhz *\n";
  }
  if (harpe::device::parse_clock_levels(written) != clocks) std::abort();
  const auto highest = harpe::device::parse_highest_graphics_clock(text);
  if (highest && highest->value <= 0) std::abort();
  return 0;
}
