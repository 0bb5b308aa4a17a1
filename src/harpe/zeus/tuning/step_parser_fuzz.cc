// Any bytes as the file of steps: cutting them does not change the events, at most one per line.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "harpe/zeus/tuning/step_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  harpe::zeus::StepParser whole, cut;
  const auto events = whole.add(text);
  std::vector<harpe::zeus::StepEvent::Kind> pieces;
  for (std::size_t at = 0, length = 1; at < size; at += length, length = length % 7 + 1) {
    const auto more = cut.add(text.substr(at, length));
    pieces.insert(pieces.end(), more.begin(), more.end());
  }
  const auto lines = static_cast<std::uint64_t>(std::ranges::count(text, '\n'));
  if (events != pieces || whole.ignored() != cut.ignored()) std::abort();
  if (events.size() + whole.ignored() != lines) std::abort();
  return 0;
}
