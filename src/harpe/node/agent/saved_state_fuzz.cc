// A state that parses can be written, and parses back the same.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "harpe/node/agent/saved_state.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto state =
      harpe::node::parse_saved_state({reinterpret_cast<const char*>(data), size}, "state.json");
  if (!state.ok()) {
    if (state.error().diagnostics.empty()) std::abort();
    return 0;
  }
  const auto again = harpe::node::parse_saved_state(harpe::node::text_of(*state), "again.json");
  if (!again.ok() || *again != *state) std::abort();
  return 0;
}
