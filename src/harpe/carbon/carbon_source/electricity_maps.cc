#include "harpe/carbon/carbon_source/electricity_maps.h"

#include <algorithm>
#include <array>
#include <utility>

#include "harpe/base/fields.h"
#include "harpe/base/json.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/carbon/carbon_source/provider_sources.h"
#include "harpe/net/http_client/percent_encoded.h"

namespace harpe::carbon {
namespace {

constexpr const char* kElectricityMaps = "Electricity Maps";

constexpr std::array kGranularities =
    std::to_array<std::pair<std::string_view, WholeSeconds>>({{"hourly", WholeSeconds(3600)},
                                                              {"30_minutes", WholeSeconds(1800)},
                                                              {"15_minutes", WholeSeconds(900)},
                                                              {"5_minutes", WholeSeconds(300)}});

class ElectricityMapsReader {
 public:
  ElectricityMapsReader(const ElectricityMapsOptions& asked, Diagnostics& diagnostics)
      : asked_(asked), diagnostics_(diagnostics) {}

  void read_document(const JsonValue& document) {
    Fields fields(document, "the answer", diagnostics_);
    if (!diagnostics_.empty()) return;
    check_head(fields);
    const bool forecast = document.find("forecast") != nullptr;
    bool list = false;
    for (const char* name : {"forecast", "history", "data"}) {
      if (list || document.find(name) == nullptr) continue;
      list = true;
      for (const JsonValue* item : fields.objects(name)) read_item(*item, forecast);
    }
    if (!list) read_item(document, false);
    // For a forecast, the time of issue; for measured values, only the time of compilation.
    if (forecast) issued_at_ = read_time(fields, "updatedAt");
  }

  std::vector<ProviderRow> take_rows() { return std::move(rows_); }
  std::optional<UtcTime> issued_at() const { return issued_at_; }

 private:
  void check_head(Fields& fields) {
    const auto zone = fields.text("zone");
    if (zone && *zone != asked_.zone) {
      fields.error("zone",
                   "is " + in_quotes(*zone) + ", but " + in_quotes(asked_.zone) + " was requested");
    }
    check_meaning(fields);
  }

  /// Checks the kind and the step, in the answer or in one of its items.
  void check_meaning(Fields& fields) {
    const char* wanted = asked_.kind == IntensityKind::kAverageDirect ? "direct" : "lifecycle";
    const auto type = text_if_any(fields, "emissionFactorType");
    if (type && *type != wanted) {
      fields.error("emissionFactorType",
                   "is " + in_quotes(*type) + ", but " + wanted + " was requested");
    }
    const auto granularity = text_if_any(fields, "temporalGranularity");
    if (granularity && *granularity != electricity_maps_granularity(asked_.step)) {
      fields.error("temporalGranularity",
                   "is " + in_quotes(*granularity) + ", but " +
                       std::string(electricity_maps_granularity(asked_.step)) + " was requested");
    }
  }

  void read_item(const JsonValue& item, bool forecast) {
    Fields fields(item, "a value", diagnostics_);
    check_meaning(fields);
    const auto start = read_time(fields, "datetime");
    if (!start) {
      if (item.find("datetime") == nullptr) fields.error("datetime", "is missing");
      return;
    }
    const JsonValue* value = fields.any("carbonIntensity");
    double grams = kNoValue;
    if (value == nullptr) {
      fields.error("carbonIntensity", "is missing");
    } else if (value->type != JsonValue::Type::kNull) {
      grams = fields.number("carbonIntensity", -1e9, 1e9).value_or(kNoValue);
    }
    const bool estimated = !forecast && has_value(fields, "isEstimated") &&
                           fields.boolean("isEstimated").value_or(false);
    rows_.push_back({.start = *start,
                     .grams_per_kwh = grams,
                     .estimated = estimated,
                     .line = item.line,
                     .column = item.column});
  }

  /// Returns false also for null, the value of members that do not apply.
  static bool has_value(Fields& fields, const char* key) {
    const JsonValue* value = fields.any(key);
    return value != nullptr && value->type != JsonValue::Type::kNull;
  }
  static std::optional<std::string> text_if_any(Fields& fields, const char* key) {
    return has_value(fields, key) ? fields.text(key) : std::nullopt;
  }

  static std::optional<UtcTime> read_time(Fields& fields, const char* key) {
    const auto text = text_if_any(fields, key);
    if (!text) return std::nullopt;
    const auto time = parse_provider_time(*text);
    if (!time) fields.error(key, "expected a time in UTC, found " + in_quotes(*text));
    return time;
  }

  const ElectricityMapsOptions& asked_;
  Diagnostics& diagnostics_;
  std::vector<ProviderRow> rows_;
  std::optional<UtcTime> issued_at_;
};

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
    if (options_.version != ElectricityMapsOptions{}.version)
      identity_.options = "version=" + options_.version + " ";
    if (!options_.estimations) identity_.options += "estimations=no";
  }

  const SourceIdentity& identity() const override { return identity_; }

  Result<ProviderIntensity> latest() override { return measured("latest", ""); }

  Result<ProviderIntensity> history(UtcTime from, UtcTime to) override {
    // This request is open to every plan, unlike a range.
    if (from >= interval_of(access_.now(), options_.step) - kLongestHistory + options_.step) {
      ProviderIntensity day = HARPE_TRY(measured("history", ""));
      const auto part = part_of(day.series, from, to);
      if (!part) return Error::of(ErrorCode::kNotFound, "Electricity Maps: no value for that time");
      day.series = *part;
      return day;
    }
    return fetch_in_parts(from, to, kLongestPastRange, [&](UtcTime begin, UtcTime end) {
      return measured("past-range", "&start=" + net::percent_encoded(utc_text(begin)) +
                                        "&end=" + net::percent_encoded(utc_text(end)));
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
    // The user chooses the zone: the provider must not derive it from the caller's address.
    const std::string url =
        access_.url + "/" + options_.version + "/carbon-intensity/" + what +
        "?zone=" + net::percent_encoded(options_.zone) +
        "&emissionFactorType=" + (direct ? "direct" : "lifecycle") +
        "&temporalGranularity=" + std::string(electricity_maps_granularity(options_.step)) +
        "&disableCallerLookup=true" + query;
    net::HttpHeaders headers;
    if (!access_.token.empty()) headers.emplace_back("auth-token", access_.token);
    const std::string body = HARPE_TRY(link_.get(url, headers, {access_.token}));
    ProviderIntensity answer = HARPE_TRY(parse_electricity_maps(body, options_));
    answer.fetched_at = access_.now();
    return answer;
  }

  SourceLink& link_;
  ProviderAccess access_;
  ElectricityMapsOptions options_;
  SourceIdentity identity_;
};

}  // namespace

Result<ProviderIntensity> parse_electricity_maps(std::string_view json,
                                                 const ElectricityMapsOptions& asked) {
  const JsonValue document = HARPE_TRY(parse_json(json, kElectricityMaps));
  Diagnostics diagnostics(kElectricityMaps);
  ElectricityMapsReader reader(asked, diagnostics);
  reader.read_document(document);
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  ProviderIntensity answer = HARPE_TRY(series_of_rows(
      reader.take_rows(),
      {.kind = asked.kind, .zone = asked.zone, .source = kElectricityMaps, .step = asked.step}));
  answer.issued_at = reader.issued_at();
  return answer;
}

std::string_view electricity_maps_granularity(WholeSeconds step) {
  for (const auto& [name, length] : kGranularities) {
    if (length == step) return name;
  }
  return "";
}

std::unique_ptr<IntensitySource> make_electricity_maps(SourceLink& link, ProviderAccess access,
                                                       ElectricityMapsOptions options) {
  return std::make_unique<ElectricityMapsSource>(link, std::move(access), std::move(options));
}

}  // namespace harpe::carbon
