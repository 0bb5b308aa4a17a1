#include "harpe/carbon/carbon_source/mean_intensity.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "harpe/carbon/carbon/intensity_csv.h"

namespace harpe::carbon {
namespace {

using Provider = SourceSpecification::Provider;

Error no_value(const std::string& name) {
  return Error::of(ErrorCode::kUnavailable, name + " has no value of which to take the mean");
}

/// Returns the mean of the values that are known; nullopt if none is.
std::optional<CarbonIntensity> mean_of(const IntensitySeries& series) {
  double sum = 0;
  std::size_t known = 0;
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (!series.known(i)) continue;
    sum += series.values[i];
    ++known;
  }
  if (known == 0) return std::nullopt;
  std::string source = series.source.empty() ? "" : series.source + ", ";
  source += "mean of " + std::to_string(known) +
            (known == series.size() ? "" : " of " + std::to_string(series.size())) +
            " values from " + utc_text(series.start) + " to " + utc_text(series.end());
  return CarbonIntensity{.grams_per_kwh = sum / static_cast<double>(known),
                         .kind = series.kind,
                         .zone = series.zone,
                         .source = std::move(source)};
}

Result<CarbonIntensity> mean_of_file(const SourceSpecification& specification,
                                     const SourceEnvironment& environment) {
  const std::string text = HARPE_TRY(environment.read(specification.path));
  const IntensitySeries series =
      HARPE_TRY(parse_intensity_csv(text, specification.path, specification.csv));
  auto mean = mean_of(series);
  if (!mean) return no_value(specification.path);
  return *std::move(mean);
}

}  // namespace

Result<CarbonIntensity> mean_intensity(const SourceSpecification& specification,
                                       const SourceEnvironment& environment, WholeSeconds past) {
  if (specification.provider == Provider::kConstant) return specification.constant;
  if (specification.provider == Provider::kFile) return mean_of_file(specification, environment);
  const std::unique_ptr<CarbonSource> source = HARPE_TRY(open_source(specification, environment));
  const UtcTime now = environment.now();
  const UtcTime from{now.since_1970 - std::min(past, kLongestMean).count()};
  const AccountingIntensity found =
      HARPE_TRY(accounting_intensity(*source, specification, from, now));
  auto mean = mean_of(found.intensity.series);
  if (!mean) return no_value(found.identity.name());
  if (mean->zone.empty()) mean->zone = found.identity.zone;
  return *std::move(mean);
}

}  // namespace harpe::carbon
