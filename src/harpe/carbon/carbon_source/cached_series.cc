#include "harpe/carbon/carbon_source/cached_series.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "harpe/base/digest.h"
#include "harpe/base/json_fields.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {
namespace {

constexpr std::string_view kCacheFormat = "harpe.carbon-cache/1 ";
constexpr std::int64_t kLastSecond = 7'258'118'400;  // 2200-01-01
constexpr std::size_t kMostCachedValues = 120'000;

constexpr std::array kKindWords = std::to_array<std::pair<IntensityKind, std::string_view>>(
    {{IntensityKind::kAverageLifecycle, "life-cycle"},
     {IntensityKind::kAverageDirect, "direct"},
     {IntensityKind::kMarginal, "marginal"},
     {IntensityKind::kUnstated, "unstated"}});

std::optional<UtcTime> cached_time(Fields& fields, const char* key) {
  const auto text = fields.text(key);
  if (!text) return std::nullopt;
  const auto time = parse_utc(*text);
  if (!time) fields.error(key, "expected a time in UTC");
  return time;
}

/// Returns the items of a list of length `size`; null and an error if it has another length.
const std::vector<JsonValue>* list_of(Fields& fields, const char* key, std::size_t size) {
  const JsonValue* list = fields.any(key);
  if (list != nullptr && list->type == JsonValue::Type::kArray && list->items.size() == size) {
    return &list->items;
  }
  fields.error(key, "expected a list of " + std::to_string(size));
  return nullptr;
}

void read_values(Fields& fields, CachedSeries& cached) {
  const JsonValue* values = fields.any("values");
  if (values == nullptr || values->type != JsonValue::Type::kArray || values->items.empty() ||
      values->items.size() > kMostCachedValues) {
    fields.error("values", "expected a list of values");
    return;
  }
  const std::size_t size = values->items.size();
  const auto* estimated = list_of(fields, "estimated", size);
  const auto* fetched = list_of(fields, "fetched_at", size);
  if (estimated == nullptr || fetched == nullptr) return;
  const double lowest = cached.identity.kind == IntensityKind::kMarginal ? -1e9 : 0;
  for (std::size_t i = 0; i < size; ++i) {
    const JsonValue& value = values->items[i];
    const bool null = value.type == JsonValue::Type::kNull;
    const bool number =
        value.type == JsonValue::Type::kNumber && value.number >= lowest && value.number <= 1e9;
    const JsonValue& flag = (*estimated)[i];
    const JsonValue& at = (*fetched)[i];
    if ((!null && !number) || !flag.is_integer || flag.integer < 0 || flag.integer > 1 ||
        !at.is_integer || at.integer < 0 || at.integer > kLastSecond) {
      fields.error("values", "value " + std::to_string(i + 1) + " is not valid");
      return;
    }
    cached.series.values.push_back(null ? kNoValue : value.number);
    cached.series.estimated.push_back(static_cast<std::uint8_t>(flag.integer));
    cached.fetched_at.push_back(at.integer);
  }
}

void read_cached(Fields& fields, Diagnostics& diagnostics, CachedSeries& cached) {
  SourceIdentity& identity = cached.identity;
  identity.provider = needed(fields, "provider", fields.text("provider"));
  identity.zone = needed(fields, "zone", fields.text("zone"));
  const auto kind = kind_of_word(needed(fields, "kind", fields.text("kind")));
  if (!kind) fields.error("kind", "is not a kind of intensity");
  identity.kind = kind.value_or(IntensityKind::kUnstated);
  const auto step = needed(fields, "step_s", fields.integer("step_s", 1, 86'400));
  if (step == 0 || 86'400 % step != 0) fields.error("step_s", "does not divide a day");
  identity.step = WholeSeconds(step);
  IntensitySeries& series = cached.series;
  series.start = needed(fields, "start", cached_time(fields, "start"));
  series.step = identity.step;
  series.kind = identity.kind;
  series.zone = needed(fields, "series_zone", fields.text("series_zone"));
  series.source = needed(fields, "source", fields.text("source"));
  cached.issued_at = cached_time(fields, "issued_at");
  if (diagnostics.empty()) read_values(fields, cached);
}

}  // namespace

std::string_view kind_word(IntensityKind kind) {
  for (const auto& [one, word] : kKindWords) {
    if (one == kind) return word;
  }
  return "unstated";
}

std::optional<IntensityKind> kind_of_word(std::string_view word) {
  for (const auto& [kind, one] : kKindWords) {
    if (one == word) return kind;
  }
  return std::nullopt;
}

CachedSeries cached_of(const SourceIdentity& identity, const ProviderIntensity& answer) {
  CachedSeries cached{.identity = identity,
                      .series = answer.series,
                      .fetched_at = {},
                      .issued_at = answer.issued_at};
  for (std::size_t i = 0; i < answer.series.size(); ++i) {
    cached.fetched_at.push_back(answer.series.known(i) ? answer.fetched_at.since_1970 : 0);
  }
  return cached;
}

std::string cached_series_text(const CachedSeries& cached) {
  const IntensitySeries& series = cached.series;
  nlohmann::ordered_json document = {{"provider", cached.identity.provider},
                                     {"zone", cached.identity.zone},
                                     {"kind", kind_word(cached.identity.kind)},
                                     {"step_s", cached.identity.step.count()},
                                     {"series_zone", series.zone},
                                     {"source", series.source},
                                     {"start", utc_text(series.start)}};
  if (cached.issued_at) document["issued_at"] = utc_text(*cached.issued_at);
  auto values = nlohmann::ordered_json::array();
  for (const double value : series.values) values.push_back(null_if_nan(value));
  document["values"] = std::move(values);
  document["estimated"] = series.estimated;
  document["fetched_at"] = cached.fetched_at;
  const std::string body = json_line(document) + "\n";
  return std::string(kCacheFormat) + hexadecimal(fnv1a(body)) + "\n" + body;
}

Result<CachedSeries> parse_cached_series(std::string_view text, const std::string& file) {
  const auto damaged = [&](const std::string& why) {
    return Error::io(file, "is damaged: " + why);
  };
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || !text.starts_with(kCacheFormat)) {
    return damaged("it is not a cache file");
  }
  const std::string_view body = text.substr(end + 1);
  if (text.substr(kCacheFormat.size(), end - kCacheFormat.size()) != hexadecimal(fnv1a(body))) {
    return damaged("its digest does not match");
  }
  return read_document<CachedSeries>(body, file, read_cached);
}

}  // namespace harpe::carbon
