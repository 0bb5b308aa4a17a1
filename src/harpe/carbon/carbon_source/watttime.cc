#include "harpe/carbon/carbon_source/watttime.h"

#include <algorithm>
#include <utility>

#include "harpe/base/fields.h"
#include "harpe/base/json.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon/intensity_csv.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/carbon/carbon_source/provider_sources.h"
#include "harpe/net/http_client/percent_encoded.h"

namespace harpe::carbon {
namespace {

constexpr const char* kWattTime = "WattTime";

/// The contents of "meta".
struct WattTimeMeta {
  double grams_per_unit = 1;  ///< g/kWh
  std::optional<WholeSeconds> step = {};
  std::optional<UtcTime> generated_at = {};
};

std::optional<UtcTime> watttime_time(Fields& fields, const char* key) {
  const auto text = fields.text(key);
  if (!text) return std::nullopt;
  const auto time = parse_provider_time(*text);
  if (!time) fields.error(key, "expected a time with its offset, found " + in_quotes(*text));
  return time;
}

WattTimeMeta read_meta(Fields& document, const WattTimeAsked& asked, Diagnostics& diagnostics) {
  WattTimeMeta meta;
  const JsonValue* object = document.object("meta");
  if (object == nullptr) {
    document.error("meta", "is missing: it has the unit of the values");
    return meta;
  }
  Fields fields(*object, "meta", diagnostics);
  const auto expect = [&](const char* key, const std::string& wanted) {
    const auto found = fields.text(key);
    if (found && *found != wanted) {
      fields.error(key,
                   "is " + in_quotes(*found) + ", but " + in_quotes(wanted) + " was requested");
    }
  };
  expect("region", asked.region);
  expect("signal_type", asked.signal);
  const auto units = fields.text("units");
  if (!units) {
    fields.error("units", "is missing");
  } else {
    const auto grams = parse_intensity_unit(*units);
    if (!grams.ok()) {
      fields.error("units", grams.error().diagnostics[0].message);
    } else {
      meta.grams_per_unit = *grams;
    }
  }
  if (const auto period = fields.integer("data_point_period_seconds", 1, 86'400)) {
    meta.step = WholeSeconds(*period);
  }
  meta.generated_at = watttime_time(fields, "generated_at");
  return meta;
}

/// Adds the points of a list of an object to `rows`.
void read_points(Fields& holder, const char* key, double grams_per_unit, Diagnostics& diagnostics,
                 std::vector<ProviderRow>& rows) {
  for (const JsonValue* item : holder.objects(key)) {
    Fields fields(*item, "a point", diagnostics);
    const auto start = watttime_time(fields, "point_time");
    const JsonValue* value = fields.any("value");
    if (!start || value == nullptr) {
      if (item->find("point_time") == nullptr) fields.error("point_time", "is missing");
      if (value == nullptr) fields.error("value", "is missing");
      continue;
    }
    double grams = kNoValue;
    if (value->type != JsonValue::Type::kNull) {
      grams = fields.number("value", -1e9, 1e9).value_or(kNoValue) * grams_per_unit;
    }
    rows.push_back(
        {.start = *start, .grams_per_kwh = grams, .line = item->line, .column = item->column});
  }
}

ProviderRowsOf rows_of(const WattTimeAsked& asked, const WattTimeMeta& meta) {
  return {.kind = watttime_kind(asked.signal),
          .zone = asked.region,
          .source = kWattTime,
          .step = meta.step};
}

constexpr const char* kWattTimeUrl = "https://api.watttime.org";
constexpr WholeSeconds kWattTimeLongest = whole_hours(24 * 32);
constexpr WholeSeconds kWattTimeStep{300};

/// Returns the Base64 form of a text such as "user:password".
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

class WattTime final : public IntensitySource {
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

 private:
  static std::string range(UtcTime from, UtcTime to) {
    return "&start=" + net::percent_encoded(utc_text(from)) +
           "&end=" + net::percent_encoded(utc_text(to));
  }

  Status log_in() {
    const std::string basic = base64(access_.token);
    const std::string body = HARPE_TRY(
        link_.get(access_.url + "/login", {{"Authorization", "Basic " + basic}}, {basic}));
    token_ = HARPE_TRY(parse_watttime_login(body));
    return ok_status();
  }

  /// Requests data. If the provider refuses a token that is older than this call, logs in again: a
  /// token expires after about 30 minutes.
  Result<std::string> ask(const std::string& path, const std::string& query) {
    bool fresh = token_.empty();
    if (fresh) HARPE_TRY(log_in());
    const std::string url = access_.url + path + "?region=" + net::percent_encoded(asked_.region) +
                            "&signal_type=" + net::percent_encoded(asked_.signal) + query;
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

IntensityKind watttime_kind(std::string_view signal) {
  if (signal == "co2_moer") return IntensityKind::kMarginal;
  if (signal == "co2_aoer") return IntensityKind::kAverageDirect;
  return IntensityKind::kUnstated;
}

Result<std::string> parse_watttime_login(std::string_view json) {
  // A parse error is not repeated, because it may quote the token.
  const auto document = parse_json(json, kWattTime);
  if (!document.ok()) return Error::invalid("WattTime: the answer to the login is not valid JSON");
  const JsonValue* token = document->find("token");
  if (document->type != JsonValue::Type::kObject || token == nullptr ||
      token->type != JsonValue::Type::kString || token->string.empty() ||
      token->string.size() > 8192) {
    return Error::invalid("WattTime: the answer to the login has no token");
  }
  for (const char c : token->string) {
    if (c <= ' ' || c > '~') return Error::invalid("WattTime: the token has a forbidden character");
  }
  return token->string;
}

Result<ProviderIntensity> parse_watttime(std::string_view json, const WattTimeAsked& asked) {
  const JsonValue document = HARPE_TRY(parse_json(json, kWattTime));
  Diagnostics diagnostics(kWattTime);
  Fields fields(document, "the answer", diagnostics);
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  const WattTimeMeta meta = read_meta(fields, asked, diagnostics);
  std::vector<ProviderRow> rows;
  if (fields.any("data") == nullptr) fields.error("data", "is missing");
  read_points(fields, "data", meta.grams_per_unit, diagnostics, rows);
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  ProviderIntensity answer = HARPE_TRY(series_of_rows(std::move(rows), rows_of(asked, meta)));
  answer.issued_at = meta.generated_at;
  return answer;
}

std::unique_ptr<IntensitySource> make_watttime(SourceLink& link, ProviderAccess access,
                                               WattTimeAsked asked) {
  return std::make_unique<WattTime>(link, std::move(access), std::move(asked));
}

}  // namespace harpe::carbon
