// Energy that is read is valid, within limits, and unchanged when it is written and read again.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "harpe/base/check.h"
#include "harpe/carbon/carbon/ledger_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto runs = harpe::carbon::parse_ledger(text, "fuzz.json");
  if (!runs.ok()) return 0;
  for (const harpe::carbon::LedgerRun& run : *runs) {
    HARPE_CHECK(run.ledger.size() <= harpe::carbon::EnergyLedger::kMost, "it is within the limit");
    for (const auto& [start, use] : run.ledger.uses()) {
      HARPE_CHECK(use.sound(), "what is read is sound");
      HARPE_CHECK(start.since_1970 % run.ledger.step().count() == 0, "it is on the grid");
    }
  }
  const auto again = harpe::carbon::parse_ledger(harpe::carbon::ledger_json(*runs), "again.json");
  HARPE_CHECK(again.ok() && again->size() == runs->size(), "what is written can be read");
  for (std::size_t i = 0; i < runs->size(); ++i) {
    const double before = (*runs)[i].ledger.total().energy.value;
    const double after = (*again)[i].ledger.total().energy.value;
    HARPE_CHECK(std::abs(before - after) <= 1e-6 * static_cast<double>(size) + 1e-9 * before,
                "no energy is lost");
  }
  return 0;
}
