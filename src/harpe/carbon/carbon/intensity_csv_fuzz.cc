// Every series that is read is on a grid; its values are gaps, or finite and within bounds. It can
// be averaged to hours, or the error gives the reason.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "harpe/base/check.h"
#include "harpe/carbon/carbon/exogenous.h"
#include "harpe/carbon/carbon/intensity_csv.h"

using harpe::carbon::UtcTime;
using harpe::carbon::whole_days;
using harpe::carbon::whole_hours;
using harpe::carbon::WholeSeconds;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const harpe::carbon::IntensityCsvOptions& options :
       {harpe::carbon::IntensityCsvOptions{.hours_are_utc = true},
        harpe::carbon::IntensityCsvOptions{.time_column = "t",
                                           .value_column = "v",
                                           .unit = 0.45,
                                           .kind = harpe::IntensityKind::kMarginal}}) {
    const auto series = harpe::carbon::parse_intensity_csv(text, "fuzz.csv", options);
    if (!series.ok()) continue;
    HARPE_CHECK(series->size() >= 1 && series->size() == series->estimated.size(), "one flag each");
    HARPE_CHECK(series->gaps() < series->size(), "it has a value");
    HARPE_CHECK(whole_days(1) % series->step == WholeSeconds(0), "it divides a day");
    for (const double value : series->values) {
      HARPE_CHECK(std::isnan(value) || std::abs(value) <= 3000, "it can be an intensity");
    }
    if (series->step < whole_hours(1)) {
      (void)harpe::carbon::coarsened(*series, whole_hours(1)).ok();
    }
  }
  const auto exogenous = harpe::carbon::parse_exogenous_csv(
      text, "fuzz.csv", {}, UtcTime{19'000LL * 86'400}, whole_hours(1), 48);
  if (exogenous.ok()) {
    for (const auto& column : exogenous->columns) {
      HARPE_CHECK(column.values.size() == 48, "it is as long as the grid");
    }
  }
  return 0;
}
