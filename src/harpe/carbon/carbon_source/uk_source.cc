#include <algorithm>
#include <utility>

#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/carbon/carbon_source/provider_sources.h"
#include "harpe/carbon/carbon_source/uk_intensity.h"

namespace harpe {
namespace {

constexpr const char* kUkUrl = "https://api.carbonintensity.org.uk";
constexpr WholeSeconds kUkLongest =
    whole_hours(24 * 13);  // of 14 days, the ends counted in half hours

/// "2018-01-20T12:00Z": this API writes no seconds and reads none.
std::string uk_time(UtcTime time) {
  return utc_text(time).substr(0, 16) + "Z";
}

class UkSource final : public IntensitySource {
 public:
  UkSource(SourceLink& link, ProviderAccess access, std::optional<int> region)
      : link_(link), access_(std::move(access)), region_(region) {
    if (access_.url.empty()) access_.url = kUkUrl;
    identity_ = {.provider = "uk",
                 .zone = region_ ? std::to_string(*region_) : "",
                 .kind = IntensityKind::kAverageDirect,
                 .step = WholeSeconds(1800)};
  }

  const SourceIdentity& identity() const override { return identity_; }

  Result<ProviderIntensity> latest() override {
    if (region_) return ask("/regional/regionid/" + std::to_string(*region_), false);
    return ask("/intensity", false);
  }

  Result<ProviderIntensity> history(UtcTime from, UtcTime to) override {
    return fetch_in_parts(from, to, kUkLongest, [&](UtcTime begin, UtcTime end) {
      // Given the start of a half hour, the API begins with the one before.
      const std::string range = uk_time(begin + whole_minutes(1)) + "/" + uk_time(end);
      return ask("/intensity/" + range + suffix(), false);
    });
  }

  Result<ProviderIntensity> forecast(WholeSeconds horizon) override {
    const std::string span = horizon > whole_hours(24) ? "/fw48h" : "/fw24h";
    const UtcTime now = interval_of(access_.now(), identity_.step);
    ProviderIntensity forecast =
        HARPE_TRY(ask("/intensity/" + uk_time(now + whole_minutes(1)) + span + suffix(), true));
    forecast.issued_at = forecast.fetched_at;  // it does not say
    return forecast;
  }

 private:
  std::string suffix() const { return region_ ? "/regionid/" + std::to_string(*region_) : ""; }

  Result<ProviderIntensity> ask(const std::string& path, bool forecast) {
    const std::string whole =
        access_.url + (region_ && !path.starts_with("/regional") ? "/regional" : "") + path;
    const std::string body = HARPE_TRY(link_.get(whole, {{"Accept", "application/json"}}));
    ProviderIntensity answer =
        HARPE_TRY(parse_uk_intensity(body, {.region = region_, .forecast = forecast}));
    answer.fetched_at = access_.now();
    return answer;
  }

  SourceLink& link_;
  ProviderAccess access_;
  std::optional<int> region_;
  SourceIdentity identity_;
};

}  // namespace

std::unique_ptr<IntensitySource> make_uk(SourceLink& link, ProviderAccess access,
                                         std::optional<int> region) {
  return std::make_unique<UkSource>(link, std::move(access), region);
}

}  // namespace harpe
