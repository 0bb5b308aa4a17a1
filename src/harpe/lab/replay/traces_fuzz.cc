// Traces that parse have positive times and powers; text that is not a table is refused.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "harpe/base/check.h"
#include "harpe/lab/replay/traces.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto rows = harpe::lab::parse_train_rows(text, "train.csv"); rows.ok()) {
    for (const harpe::lab::TrainRow& row : *rows) {
      HARPE_CHECK(row.key.batch_size >= 1 && row.target_epoch.value_or(1) >= 1, "they count");
    }
  }
  if (const auto rows = harpe::lab::parse_power_rows(text, "power.csv"); rows.ok()) {
    for (const harpe::lab::PowerRow& row : *rows) {
      HARPE_CHECK(row.epoch_time.value > 0 && row.average_power.value > 0, "they were measured");
    }
  }
  return 0;
}
