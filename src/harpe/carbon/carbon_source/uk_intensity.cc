#include "harpe/carbon/carbon_source/uk_intensity.h"

#include <utility>

#include "harpe/base/fields.h"
#include "harpe/base/json.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/carbon/carbon_source/provider_sources.h"

namespace harpe::carbon {
namespace {

constexpr const char* kUkSource = "carbonintensity.org.uk";
constexpr WholeSeconds kHalfHour{1800};

class UkReader {
 public:
  UkReader(const UkAsked& asked, Diagnostics& diagnostics)
      : asked_(asked), diagnostics_(diagnostics) {}

  /// \param holder  the object with "data"
  void read_data(const JsonValue& holder) {
    const JsonValue* data = holder.find("data");
    if (data == nullptr) {
      diagnostics_.add(holder.line, holder.column, "the answer has no \"data\"");
    } else if (data->type == JsonValue::Type::kObject) {
      read_region(*data);
    } else if (data->type == JsonValue::Type::kArray) {
      for (const JsonValue& item : data->items) read_item(item);
    } else {
      diagnostics_.add(data->line, data->column, "data: expected a list or a region");
    }
  }
  std::vector<ProviderRow> take_rows() { return std::move(rows_); }

 private:
  void read_item(const JsonValue& item) {
    if (item.find("data") != nullptr && !in_region_) {
      read_region(item);
    } else if (item.find("regions") != nullptr) {
      read_half_hour_of_regions(item);
    } else {
      read_half_hour(item, item);
    }
  }

  void read_region(const JsonValue& region) {
    if (in_region_) {
      diagnostics_.add(region.line, region.column, "a region contains a region");
      return;
    }
    Fields fields(region, "a region", diagnostics_);
    const auto id = fields.integer("regionid", 0, 1000);
    if (id && id != asked_.region) {
      fields.error("regionid", "is " + std::to_string(*id) + ", which was not requested");
    }
    in_region_ = true;
    read_data(region);
    in_region_ = false;
  }

  void read_half_hour_of_regions(const JsonValue& item) {
    Fields fields(item, "a half hour", diagnostics_);
    for (const JsonValue* region : fields.objects("regions")) {
      const JsonValue* id = region->find("regionid");
      if (id == nullptr || !id->is_integer || !asked_.region) continue;
      if (id->integer == *asked_.region) read_half_hour(item, *region);
    }
  }

  /// \param valued  the object with "intensity"
  void read_half_hour(const JsonValue& item, const JsonValue& valued) {
    Fields fields(item, "a half hour", diagnostics_);
    const auto from = read_time(fields, "from"), to = read_time(fields, "to");
    if (!from || !to) return;
    if (*to - *from != kHalfHour) {
      fields.error("to", "expected half an hour after \"from\"");
      return;
    }
    const JsonValue* intensity = valued.find("intensity");
    if (intensity == nullptr) {
      diagnostics_.add(valued.line, valued.column, "a half hour has no \"intensity\"");
      return;
    }
    Fields values(*intensity, "intensity", diagnostics_);
    const auto actual = asked_.forecast ? std::nullopt : read_value(values, "actual");
    const auto forecast = read_value(values, "forecast");
    rows_.push_back({.start = *from,
                     .grams_per_kwh = actual ? *actual : forecast.value_or(kNoValue),
                     .estimated = !asked_.forecast && !actual,
                     .line = item.line,
                     .column = item.column});
  }

  std::optional<UtcTime> read_time(Fields& fields, const char* key) {
    const auto text = fields.text(key);
    const auto time = text ? parse_provider_time(*text) : std::nullopt;
    if (!time) fields.error(key, "expected a time such as 2018-01-20T12:00Z");
    return time;
  }

  std::optional<double> read_value(Fields& fields, const char* key) {
    const JsonValue* value = fields.any(key);
    if (value == nullptr || value->type == JsonValue::Type::kNull) return std::nullopt;
    return fields.number(key, -1e9, 1e9);
  }

  const UkAsked& asked_;
  Diagnostics& diagnostics_;
  std::vector<ProviderRow> rows_;
  bool in_region_ = false;
};

constexpr const char* kUkUrl = "https://api.carbonintensity.org.uk";
constexpr WholeSeconds kUkLongest =
    whole_hours(24 * 13);  // below 14 days, with both ends counted in half hours

/// Returns a time such as "2018-01-20T12:00Z": this API writes and reads no seconds.
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
      // Given the start of a half hour, the API would begin with the previous one.
      const std::string range = uk_time(begin + whole_minutes(1)) + "/" + uk_time(end);
      return ask("/intensity/" + range + suffix(), false);
    });
  }

  Result<ProviderIntensity> forecast(WholeSeconds horizon) override {
    const std::string span = horizon > whole_hours(24) ? "/fw48h" : "/fw24h";
    const UtcTime now = interval_of(access_.now(), identity_.step);
    ProviderIntensity forecast =
        HARPE_TRY(ask("/intensity/" + uk_time(now + whole_minutes(1)) + span + suffix(), true));
    forecast.issued_at = forecast.fetched_at;  // the answer has no time of issue
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

std::string uk_zone(std::optional<int> region) {
  return region ? "GB-" + std::to_string(*region) : "GB";
}

Result<ProviderIntensity> parse_uk_intensity(std::string_view json, const UkAsked& asked) {
  const JsonValue document = HARPE_TRY(parse_json(json, kUkSource));
  Diagnostics diagnostics(kUkSource);
  UkReader reader(asked, diagnostics);
  reader.read_data(document);
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return series_of_rows(reader.take_rows(), {.kind = IntensityKind::kAverageDirect,
                                             .zone = uk_zone(asked.region),
                                             .source = kUkSource,
                                             .step = kHalfHour});
}

std::unique_ptr<IntensitySource> make_uk(SourceLink& link, ProviderAccess access,
                                         std::optional<int> region) {
  return std::make_unique<UkSource>(link, std::move(access), region);
}

}  // namespace harpe::carbon
