#include <cstdio>
#include <utility>

#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/carbon/carbon_source/provider_sources.h"
#include "harpe/net/http_client/percent_encoded.h"

namespace harpe {
namespace {

constexpr const char* kEntsoeUrl = "https://web-api.tp.entsoe.eu";
constexpr WholeSeconds kEntsoeLongest =
    whole_hours(24 * 31);  // a year may be asked for, but is tens of megabytes

/// "202601311300".
std::string entsoe_time(UtcTime time) {
  std::string text;
  for (const char c : utc_text(time).substr(0, 16)) {
    if (c >= '0' && c <= '9') text += c;
  }
  return text;
}

std::string entsoe_url(const ProviderAccess& access, const std::string& what, UtcTime from,
                       UtcTime to) {
  const std::string base = access.url.empty() ? kEntsoeUrl : access.url;
  return base + "/api?securityToken=" + percent_encoded(access.token) + "&documentType=" + what +
         "&periodStart=" + entsoe_time(from) + "&periodEnd=" + entsoe_time(to);
}

class Entsoe final : public EntsoeSource {
 public:
  Entsoe(SourceLink& link, ProviderAccess access, std::string zone, WholeSeconds step,
         std::vector<EmissionFactor> factors)
      : link_(link), access_(std::move(access)), factors_(std::move(factors)) {
    identity_ = {.provider = "entsoe",
                 .zone = std::move(zone),
                 .kind = IntensityKind::kAverageLifecycle,
                 .step = step};
  }

  const SourceIdentity& identity() const override { return identity_; }

  /// Generation is published an hour or more late.
  Result<ProviderIntensity> latest() override {
    const UtcTime now = interval_of(access_.now(), whole_hours(1));
    return history(now - whole_hours(12), now + whole_hours(1));
  }

  Result<ProviderIntensity> history(UtcTime from, UtcTime to) override {
    return fetch_in_parts(
        interval_of(from, whole_hours(1)), to, kEntsoeLongest,
        [&](UtcTime begin, UtcTime end) -> Result<ProviderIntensity> {
          const PowerSeries generation = HARPE_TRY(ask("A75", "A16", "in_Domain", begin, end));
          ProviderIntensity answer =
              HARPE_TRY(intensity_of_generation(generation, factors_, identity_.zone));
          answer.fetched_at = access_.now();
          return answer;
        });
  }

  Result<ProviderIntensity> forecast(WholeSeconds) override {
    return Error::of(ErrorCode::kNotSupported, "ENTSO-E has no forecast of carbon intensity");
  }

  Result<PowerSeries> day_ahead(DayAhead what, UtcTime from, UtcTime to) override {
    switch (what) {
      case DayAhead::kLoad:
        return ask("A65", "A01", "outBiddingZone_Domain", from, to);
      case DayAhead::kWindAndSolar:
        return ask("A69", "A01", "in_Domain", from, to);
      case DayAhead::kGeneration:
        break;
    }
    return ask("A71", "A01", "in_Domain", from, to);
  }

 private:
  Result<PowerSeries> ask(const std::string& document, const std::string& process,
                          const std::string& domain, UtcTime from, UtcTime to) {
    const std::string url = entsoe_url(
        access_,
        document + "&processType=" + process + "&" + domain + "=" + percent_encoded(identity_.zone),
        from, to);
    const std::string body = HARPE_TRY(link_.get(url, {}, {access_.token}));
    return parse_entsoe(body, identity_.step);
  }

  SourceLink& link_;
  ProviderAccess access_;
  std::vector<EmissionFactor> factors_;
  SourceIdentity identity_;
};

}  // namespace

std::unique_ptr<EntsoeSource> make_entsoe(SourceLink& link, ProviderAccess access, std::string zone,
                                          WholeSeconds step, std::vector<EmissionFactor> factors) {
  return std::make_unique<Entsoe>(link, std::move(access), std::move(zone), step,
                                  std::move(factors));
}

Result<DayAheadPrices> fetch_entsoe_prices(SourceLink& link, const ProviderAccess& access,
                                           const std::string& zone, WholeSeconds step, UtcTime from,
                                           UtcTime to) {
  const std::string area = percent_encoded(zone);
  DayAheadPrices all;
  const auto part_of = [&](UtcTime begin, UtcTime end) -> Result<ProviderIntensity> {
    const std::string url = entsoe_url(
        access, "A44&contract_MarketAgreement.type=A01&in_Domain=" + area + "&out_Domain=" + area,
        begin, end);
    const std::string body = HARPE_TRY(link.get(url, {}, {access.token}));
    DayAheadPrices part = HARPE_TRY(parse_entsoe_prices(body, step, zone));
    if (!all.money.empty() && all.money != part.money) {
      return Error::invalid("ENTSO-E: prices in " + all.money + " and in " + part.money +
                            ", which do not mix: ask for a time with one of them");
    }
    all.money = part.money;
    part.prices.fetched_at = access.now();
    return std::move(part.prices);
  };
  all.prices = HARPE_TRY(fetch_in_parts(interval_of(from, step), to, kEntsoeLongest, part_of));
  if (all.prices.series.gaps() == all.prices.series.size()) {
    return Error::of(ErrorCode::kNotFound, "ENTSO-E has no price of that time");
  }
  return all;
}

}  // namespace harpe
