// The stored state of a job that is controlled by its grid. An accepted state reads back the same.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "harpe/training/carbon_control/control_state.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto state =
      harpe::training::parse_control_state({reinterpret_cast<const char*>(data), size});
  if (!state.ok()) {
    if (state.error().text().empty()) std::abort();
    return 0;
  }
  const std::string written = harpe::training::control_state_json(*state);
  const auto again = harpe::training::parse_control_state(written);
  if (!again.ok() || harpe::training::control_state_json(*again) != written) std::abort();
  for (const double left : {0.0, 1.0, 1e6}) {
    if (!(state->spread.reserve(left, 0.95) >= 0)) std::abort();
  }
  return 0;
}
