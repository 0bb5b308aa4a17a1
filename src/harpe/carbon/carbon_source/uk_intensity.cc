#include "harpe/carbon/carbon_source/uk_intensity.h"

#include <utility>

#include "harpe/base/fields.h"
#include "harpe/base/json.h"
#include "harpe/base/text.h"

namespace harpe {
namespace {

constexpr const char* kUkSource = "carbonintensity.org.uk";
constexpr WholeSeconds kHalfHour{1800};

class UkReader {
 public:
  UkReader(const UkAsked& asked, Diagnostics& diagnostics)
      : asked_(asked), diagnostics_(diagnostics) {}

  /// \param holder  what has "data"
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
      diagnostics_.add(region.line, region.column, "a region within a region");
      return;
    }
    Fields fields(region, "a region", diagnostics_);
    const auto id = fields.integer("regionid", 0, 1000);
    if (id && id != asked_.region) {
      fields.error("regionid", "is " + std::to_string(*id) + ", which was not asked for");
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

  /// \param valued  what has "intensity"
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
      diagnostics_.add(valued.line, valued.column, "a half hour without \"intensity\"");
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

}  // namespace harpe
