#include "harpe/carbon/carbon_source/provider_sources.h"

#include <algorithm>
#include <utility>

#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {
namespace {

/// A source of the values in a file.
class SeriesSource final : public IntensitySource {
 public:
  SeriesSource(std::string provider, IntensitySeries series, UtcNow now, UtcNow read_at)
      : series_(std::move(series)), now_(std::move(now)), read_at_(std::move(read_at)) {
    identity_ = {.provider = std::move(provider),
                 .zone = series_.zone,
                 .kind = series_.kind,
                 .step = series_.step};
  }

  const SourceIdentity& identity() const override { return identity_; }

  Result<ProviderIntensity> latest() override {
    const UtcTime now = now_();
    // An interval counts from its beginning, because files have measured values.
    const auto until = part_of(series_, series_.start, now + WholeSeconds(1));
    if (!until || until->gaps() == until->size()) {
      return Error::of(ErrorCode::kUnavailable,
                       "the file begins at " + utc_text(series_.start) + ", after the present");
    }
    return answer(*until);
  }

  Result<ProviderIntensity> history(UtcTime from, UtcTime to) override {
    const auto part = part_of(series_, from, to);
    if (!part || part->gaps() == part->size()) {
      return Error::of(ErrorCode::kNotFound,
                       "the file has no value from " + utc_text(from) + " to " + utc_text(to));
    }
    return answer(*part);
  }

  /// Returns the values of the file for coming hours, which can only be a forecast.
  Result<ProviderIntensity> forecast(WholeSeconds horizon) override {
    const UtcTime now = now_();
    const UtcTime hour = interval_of(now, series_.step);
    const auto ahead = part_of(series_, hour, hour + horizon);
    const bool tells_of_now = ahead && ahead->start == hour && ahead->known(0);
    if (!tells_of_now || ahead->size() < 2 || ahead->gaps() + 1 == ahead->size()) {
      return Error::of(ErrorCode::kNotSupported, "the file has no rows after the present");
    }
    ProviderIntensity forecast = answer(*ahead);
    forecast.issued_at = forecast.fetched_at;
    forecast.series.source += forecast.series.source.empty() ? "" : ", ";
    forecast.series.source += "rows of the file after the present";
    return forecast;
  }

 private:
  ProviderIntensity answer(IntensitySeries series) const {
    return {.series = std::move(series), .fetched_at = read_at_()};
  }

  IntensitySeries series_;
  UtcNow now_, read_at_;
  SourceIdentity identity_;
};

}  // namespace

Result<std::unique_ptr<IntensitySource>> make_series_source(std::string provider,
                                                            IntensitySeries series, UtcNow now,
                                                            UtcNow read_at) {
  if (series.gaps() == series.size()) return Error::invalid("the series has no value");
  return std::unique_ptr<IntensitySource>(std::make_unique<SeriesSource>(
      std::move(provider), std::move(series), std::move(now), std::move(read_at)));
}

Result<ProviderIntensity> fetch_in_parts(
    UtcTime from, UtcTime to, WholeSeconds longest,
    const std::function<Result<ProviderIntensity>(UtcTime, UtcTime)>& fetch) {
  if (from >= to)
    return Error::invalid("the time range from " + utc_text(from) + " ends before it begins");
  std::optional<ProviderIntensity> all;
  std::optional<Error> nothing;
  for (UtcTime begin = from; begin < to; begin += longest) {
    auto part = fetch(begin, std::min(begin + longest, to));
    if (!part.ok()) {
      if (part.error().code != ErrorCode::kNotFound) return std::move(part).error();
      nothing = part.error();
      continue;
    }
    all = all ? HARPE_TRY(merged(*all, *part)) : *std::move(part);
  }
  if (!all) return *std::move(nothing);
  // Some providers also return the interval before the first.
  const auto within = part_of(all->series, from, to);
  if (!within) return Error::of(ErrorCode::kNotFound, "the answer has no value for that time");
  all->series = *within;
  return *std::move(all);
}

}  // namespace harpe::carbon
