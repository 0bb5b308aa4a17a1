#include <algorithm>
#include <utility>

#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/carbon/carbon_source/provider_sources.h"
#include "harpe/carbon/carbon_source/watttime.h"
#include "harpe/net/http_client/percent_encoded.h"

namespace harpe {
namespace {

constexpr const char* kWattTimeUrl = "https://api.watttime.org";
constexpr WholeSeconds kWattTimeLongest = whole_hours(24 * 32);
constexpr WholeSeconds kWattTimeStep{300};

/// Of "user:password".
std::string base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string encoded;
  for (std::size_t i = 0; i < text.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (i + j < text.size() ? static_cast<unsigned char>(text[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      encoded += i + j > text.size() ? '=' : kDigits[bits >> (18 - 6 * j) & 63];
    }
  }
  return encoded;
}

class WattTime final : public WattTimeSource {
 public:
  WattTime(SourceLink& link, ProviderAccess access, WattTimeAsked asked)
      : link_(link), access_(std::move(access)), asked_(std::move(asked)) {
    if (access_.url.empty()) access_.url = kWattTimeUrl;
    identity_ = {.provider = "watttime",
                 .zone = asked_.region,
                 .kind = watttime_kind(asked_.signal),
                 .step = kWattTimeStep};
  }

  const SourceIdentity& identity() const override { return identity_; }

  Result<ProviderIntensity> latest() override {
    const UtcTime now = access_.now();
    return history(now - whole_hours(2), now);
  }

  Result<ProviderIntensity> history(UtcTime from, UtcTime to) override {
    return fetch_in_parts(
        from, to, kWattTimeLongest, [&](UtcTime begin, UtcTime end) -> Result<ProviderIntensity> {
          const std::string body = HARPE_TRY(ask("/v3/historical", range(begin, end)));
          ProviderIntensity answer = HARPE_TRY(parse_watttime(body, asked_));
          answer.issued_at.reset();
          answer.fetched_at = access_.now();
          return answer;
        });
  }

  Result<ProviderIntensity> forecast(WholeSeconds horizon) override {
    const auto whole = std::clamp<std::int64_t>((horizon.count() + 3599) / 3600, 1, 72);
    const std::string body =
        HARPE_TRY(ask("/v3/forecast", "&horizon_hours=" + std::to_string(whole)));
    ProviderIntensity answer = HARPE_TRY(parse_watttime(body, asked_));
    answer.fetched_at = access_.now();
    if (!answer.issued_at) answer.issued_at = answer.fetched_at;
    return answer;
  }

  Result<std::vector<ProviderIntensity>> past_forecasts(UtcTime from, UtcTime to) override {
    const std::string body = HARPE_TRY(ask("/v3/forecast/historical", range(from, to)));
    std::vector<ProviderIntensity> forecasts =
        HARPE_TRY(parse_watttime_past_forecasts(body, asked_));
    for (ProviderIntensity& forecast : forecasts) forecast.fetched_at = access_.now();
    return forecasts;
  }

  Result<MarginalIndex> index() override {
    const std::string body = HARPE_TRY(ask("/v3/signal-index", ""));
    return parse_watttime_index(body, asked_);
  }

 private:
  static std::string range(UtcTime from, UtcTime to) {
    return "&start=" + percent_encoded(utc_text(from)) + "&end=" + percent_encoded(utc_text(to));
  }

  Status log_in() {
    const std::string basic = base64(access_.token);
    const std::string body = HARPE_TRY(
        link_.get(access_.url + "/login", {{"Authorization", "Basic " + basic}}, {basic}));
    token_ = HARPE_TRY(parse_watttime_login(body));
    return ok_status();
  }

  /// A token lives about 30 minutes: one that is refused may have been too old, but only one that
  /// was there before this call.
  Result<std::string> ask(const std::string& path, const std::string& query) {
    bool fresh = token_.empty();
    if (fresh) HARPE_TRY(log_in());
    const std::string url = access_.url + path + "?region=" + percent_encoded(asked_.region) +
                            "&signal_type=" + percent_encoded(asked_.signal) + query;
    auto body = get(url);
    if (!body.ok() && body.error().code == ErrorCode::kNoPermission && !fresh) {
      HARPE_TRY(log_in());
      body = get(url);
    }
    return body;
  }

  Result<std::string> get(const std::string& url) {
    return link_.get(url, {{"Authorization", "Bearer " + token_}}, {token_});
  }

  SourceLink& link_;
  ProviderAccess access_;
  WattTimeAsked asked_;
  SourceIdentity identity_;
  std::string token_;
};

}  // namespace

std::unique_ptr<WattTimeSource> make_watttime(SourceLink& link, ProviderAccess access,
                                              WattTimeAsked asked) {
  return std::make_unique<WattTime>(link, std::move(access), std::move(asked));
}

}  // namespace harpe
