#include <algorithm>
#include <utility>

#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/carbon/carbon_source/electricity_maps.h"
#include "harpe/carbon/carbon_source/provider_sources.h"
#include "harpe/net/http_client/percent_encoded.h"

namespace harpe {
namespace {

constexpr const char* kElectricityMapsUrl = "https://api.electricitymaps.com";
constexpr WholeSeconds kLongestPastRange = whole_hours(240);  // of hourly values
constexpr WholeSeconds kLongestHistory = whole_hours(24);

class ElectricityMapsSource final : public IntensitySource {
 public:
  ElectricityMapsSource(SourceLink& link, ProviderAccess access, ElectricityMapsOptions options)
      : link_(link), access_(std::move(access)), options_(std::move(options)) {
    if (access_.url.empty()) access_.url = kElectricityMapsUrl;
    identity_ = {.provider = "electricity-maps",
                 .zone = options_.zone,
                 .kind = options_.kind,
                 .step = options_.step};
  }

  const SourceIdentity& identity() const override { return identity_; }

  Result<ProviderIntensity> latest() override { return measured("latest", ""); }

  Result<ProviderIntensity> history(UtcTime from, UtcTime to) override {
    // Open to every plan, unlike the range.
    if (from >= interval_of(access_.now(), options_.step) - kLongestHistory + options_.step) {
      ProviderIntensity day = HARPE_TRY(measured("history", ""));
      const auto part = part_of(day.series, from, to);
      if (!part) return Error::of(ErrorCode::kNotFound, "Electricity Maps: no value of that time");
      day.series = *part;
      return day;
    }
    return fetch_in_parts(from, to, kLongestPastRange, [&](UtcTime begin, UtcTime end) {
      return measured("past-range", "&start=" + percent_encoded(utc_text(begin)) +
                                        "&end=" + percent_encoded(utc_text(end)));
    });
  }

  Result<ProviderIntensity> forecast(WholeSeconds horizon) override {
    int asked = 6;
    for (const int offered : {24, 48, 72}) {
      if (horizon > whole_hours(asked)) asked = offered;
    }
    ProviderIntensity forecast =
        HARPE_TRY(ask("forecast", "&horizonHours=" + std::to_string(asked)));
    if (!forecast.issued_at) forecast.issued_at = forecast.fetched_at;
    return forecast;
  }

 private:
  Result<ProviderIntensity> measured(const std::string& what, const std::string& query) {
    ProviderIntensity answer =
        HARPE_TRY(ask(what, query + (options_.estimations ? "" : "&disableEstimations=true")));
    answer.issued_at.reset();
    return answer;
  }

  Result<ProviderIntensity> ask(const std::string& what, const std::string& query) {
    const bool direct = options_.kind == IntensityKind::kAverageDirect;
    // The zone is the user's word: the provider must not take that of the caller's address.
    const std::string url =
        access_.url + "/" + options_.version + "/carbon-intensity/" + what +
        "?zone=" + percent_encoded(options_.zone) +
        "&emissionFactorType=" + (direct ? "direct" : "lifecycle") +
        "&temporalGranularity=" + std::string(electricity_maps_granularity(options_.step)) +
        "&disableCallerLookup=true" + query;
    HttpHeaders headers;
    if (!access_.token.empty()) headers.emplace_back("auth-token", access_.token);
    const std::string body = HARPE_TRY(link_.get(url, headers, {access_.token}));
    ProviderIntensity answer = HARPE_TRY(parse_electricity_maps(
        body, {.zone = options_.zone, .kind = options_.kind, .step = options_.step}));
    answer.fetched_at = access_.now();
    return answer;
  }

  SourceLink& link_;
  ProviderAccess access_;
  ElectricityMapsOptions options_;
  SourceIdentity identity_;
};

}  // namespace

std::unique_ptr<IntensitySource> make_electricity_maps(SourceLink& link, ProviderAccess access,
                                                       ElectricityMapsOptions options) {
  return std::make_unique<ElectricityMapsSource>(link, std::move(access), std::move(options));
}

}  // namespace harpe
