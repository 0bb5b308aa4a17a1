#include "harpe/lab/emulation/power_cap_trace.h"

#include <algorithm>
#include <array>
#include <utility>

#include "harpe/base/csv_table.h"
#include "harpe/base/text.h"

namespace harpe::lab {

std::optional<Watts> PowerCapTrace::at(Seconds time) const {
  const auto after = std::ranges::upper_bound(caps, time, {}, &Cap::from);
  if (after == caps.begin()) return std::nullopt;
  return (after - 1)->power;
}

Result<PowerCapTrace> parse_power_cap_trace(std::string_view text, const std::string& file) {
  Diagnostics diagnostics(file);
  PowerCapTrace trace;
  constexpr std::array<const char*, 2> kColumns = {"time_s", "watts"};
  CsvTable table(text, kColumns, diagnostics);
  table.each([&] {
    const PowerCapTrace::Cap cap{Seconds{table.number(0, 0)}, Watts{table.number(1, 0)}};
    if (!(cap.power > Watts{0})) table.refuse(1, "expected more than 0 W");
    if (!trace.caps.empty() && cap.from <= trace.caps.back().from) {
      table.refuse(0, "expected a time after that of the row before, " +
                          shortest(trace.caps.back().from.value) + " s");
    }
    trace.caps.push_back(cap);
  });
  if (diagnostics.empty() && trace.caps.empty()) diagnostics.add("it has no row with a cap");
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return trace;
}

}  // namespace harpe::lab
