// Any bytes from a provider, a disk or a user give a value that keeps its invariants, or an error.
// The first byte selects the reader.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "harpe/base/digest.h"
#include "harpe/carbon/carbon_source/cached_series.h"
#include "harpe/carbon/carbon_source/electricity_maps.h"
#include "harpe/carbon/carbon_source/entsoe.h"
#include "harpe/carbon/carbon_source/entsoe_prices.h"
#include "harpe/carbon/carbon_source/source_specification.h"
#include "harpe/carbon/carbon_source/uk_intensity.h"
#include "harpe/carbon/carbon_source/watttime.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_series(const harpe::carbon::IntensitySeries& series) {
  require(series.size() >= 1 && series.estimated.size() == series.size());
  require(series.step.count() > 0 && 86'400 % series.step.count() == 0);
  for (std::size_t i = 0; i < series.size(); ++i) {
    const double value = series.values[i];
    require(std::isnan(value) || std::isfinite(value));
    require(series.kind == harpe::IntensityKind::kMarginal ||
            series.kind == harpe::IntensityKind::kPrice || !(value < 0));
  }
}

void check(const harpe::Result<harpe::carbon::ProviderIntensity>& answer) {
  if (!answer.ok()) return require(!answer.error().text().empty());
  check_series(answer->series);
  require(answer->series.gaps() < answer->series.size());
}

void check_cached(const std::string& text) {
  const auto cached = harpe::carbon::parse_cached_series(text, "f");
  if (!cached.ok()) return;
  check_series(cached->series);
  require(cached->fetched_at.size() == cached->series.size());
  // The values that were read are written and read again without change.
  const auto again =
      harpe::carbon::parse_cached_series(harpe::carbon::cached_series_text(*cached), "f");
  require(again.ok() && again->fetched_at == cached->fetched_at &&
          again->series.start == cached->series.start &&
          again->series.size() == cached->series.size());
}

/// Returns a cache file of `body` with the right digest.
std::string with_digest(const std::string& body) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string digest;
  for (int shift = 60; shift >= 0; shift -= 4) digest += kHex[harpe::fnv1a(body) >> shift & 15];
  return "harpe.carbon-cache/1 " + digest + "\n" + body;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const harpe::carbon::WattTimeAsked watttime{.region = "CAISO_NORTH"};
  switch (data[0]) {
    case 'm':
      check(harpe::carbon::parse_electricity_maps(text, {.zone = "DE"}));
      break;
    case 'w':
      check(harpe::carbon::parse_watttime(text, watttime));
      (void)harpe::carbon::parse_watttime_login(text);
      break;
    case 'u':
      check(harpe::carbon::parse_uk_intensity(text, {}));
      break;
    case 'r':
      check(harpe::carbon::parse_uk_intensity(text, {.region = 13}));
      break;
    case 'e':
      if (const auto power = harpe::carbon::parse_entsoe(text, harpe::carbon::whole_hours(1));
          power.ok()) {
        require(power->size() >= 1);
        check(harpe::carbon::intensity_of_generation(
            *power, harpe::carbon::default_emission_factors(), "zone"));
      }
      break;
    case 'a':
      if (const auto prices =
              harpe::carbon::parse_entsoe_prices(text, harpe::carbon::whole_minutes(15), "zone");
          prices.ok()) {
        check_series(prices->prices.series);
        require(prices->prices.series.kind == harpe::IntensityKind::kPrice);
        require(prices->money.size() == 3);
        require(prices->prices.series.gaps() < prices->prices.series.size());
      } else {
        require(!prices.error().text().empty());
      }
      break;
    case 'c':
      check_cached(text);
      break;
    case 'd':
      check_cached(with_digest(text));
      break;
    case 's':
      (void)harpe::carbon::parse_source(text);
      break;
    case 'f':
      (void)harpe::carbon::parse_emission_factors(text);
      break;
    default:
      break;
  }
  return 0;
}
