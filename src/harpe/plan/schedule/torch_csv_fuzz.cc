// A schedule that parses, as CSV or as lists printed by Python, is valid, and parses back the same
// from all of its forms.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "harpe/plan/schedule/action_rows.h"
#include "harpe/plan/schedule/schedule.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

/// Returns lists as printed by Python, such as "[0F0, 0B0]\n[1F0, 1B0]\n".
std::string printed(const harpe::Schedule& schedule) {
  std::string text = "[";
  for (const char c : harpe::torch_csv(schedule)) {
    if (c == ',') {
      text += ", ";
    } else if (c == '\n') {
      text += "]\n[";
    } else {
      text += c;
    }
  }
  text.pop_back();  // the bracket after the last line
  return text;
}

void check(const harpe::Result<harpe::Schedule>& schedule) {
  if (!schedule.ok()) {
    require(!schedule.error().diagnostics.empty());
    return;
  }
  require(harpe::validate(*schedule).ok());
  require(harpe::plan::is_printed_lists(printed(*schedule)));
  const auto from_csv = harpe::parse_torch_csv(harpe::torch_csv(*schedule), "f");
  const auto from_lists = harpe::parse_printed_lists(printed(*schedule), "f");
  const auto from_json = harpe::parse_schedule_json(harpe::schedule_json(*schedule), "f");
  for (const auto* again : {&from_csv, &from_lists, &from_json}) {
    require(again->ok() && (*again)->lists == schedule->lists);
    require((*again)->placement == schedule->placement);
    require((*again)->micro_batches == schedule->micro_batches);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using harpe::TorchDialect;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto dialect : {TorchDialect::kDetect, TorchDialect::kNew, TorchDialect::kOld}) {
    check(harpe::parse_torch_csv(text, "f", dialect));
    check(harpe::parse_printed_lists(text, "f", dialect));
  }
  require(!harpe::plan::is_printed_lists(text) || !harpe::parse_schedule_json(text, "f").ok());
  return 0;
}
