// Any bytes as a file of speeds: read or refused. The speeds form a curve or are refused.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "harpe/command/lab_cli/pace_choices.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto choices = harpe::command::parse_pace_choices(
      std::string_view(reinterpret_cast<const char*>(data), size), "choices.json");
  if (choices.ok()) (void)harpe::carbon::PaceCurve::make(choices->pieces).ok();
  return 0;
}
