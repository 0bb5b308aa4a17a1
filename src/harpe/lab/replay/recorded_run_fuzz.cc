// Any bytes as a recorded run: an error, or a run that both optimizers complete.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "harpe/lab/replay/limit_replay.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto run = harpe::lab::parse_recorded_run(text, "fuzz");
  if (!run.ok() || run->knob.size() > 20) return 0;
  const harpe::zeus::Selector selector{.gpus = run->gpus};
  for (const int epoch : {0, 3, 60}) {
    const auto zeus = harpe::lab::replay_zeus(*run, {.selector = selector}, epoch);
    const auto own = harpe::lab::replay_profiler(*run, {.selector = selector}, 22, epoch);
    if (!zeus.ok() || !own.ok() || !zeus->choice || !own->choice) std::abort();
  }
  return 0;
}
