// Traces of stragglers and of power caps: a trace that parses is sorted, with values in range.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "harpe/lab/emulation/cluster_emulation.h"
#include "harpe/lab/emulation/stragglers.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto stragglers = harpe::lab::parse_straggler_trace(text, "f");
  if (stragglers.ok()) {
    const harpe::lab::StragglerTrace::State* before = nullptr;
    for (const auto& state : stragglers->states) {
      require(state.pipeline >= 0 && state.begin >= 0 && state.end > state.begin);
      require(state.slowdown >= 1 && state.line > 0);
      require(before == nullptr || before->pipeline < state.pipeline || before->end == state.begin);
      before = &state;
    }
  } else {
    require(!stragglers.error().diagnostics.empty());
  }
  const auto caps = harpe::lab::parse_power_cap_trace(text, "f");
  if (!caps.ok()) {
    require(!caps.error().diagnostics.empty());
    return 0;
  }
  require(!caps->caps.empty());
  for (const auto& cap : caps->caps) require(caps->at(cap.from) == cap.power);
  return 0;
}
