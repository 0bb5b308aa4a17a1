#include "harpe/plan/schedule/transfers.h"

#include <algorithm>
#include <string>
#include <utility>

namespace harpe {

Status validate(const Transfers& transfers, int parts) {
  Diagnostics diagnostics;
  for (const auto* each : {&transfers.forward, &transfers.backward}) {
    const std::string which = each == &transfers.forward ? "forward" : "backward";
    if (!each->empty() && static_cast<int>(each->size()) != parts - 1) {
      diagnostics.add(which + " transfer times: expected " + std::to_string(parts - 1) +
                      " (one between each two neighbouring model parts), found " +
                      std::to_string(each->size()));
    }
    const bool in_range = std::ranges::all_of(
        *each, [](Seconds time) { return time.value >= 0 && time.value < 1e6; });
    if (!in_range) diagnostics.add(which + " transfer times must be between 0 and 1e6 s");
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

}  // namespace harpe
