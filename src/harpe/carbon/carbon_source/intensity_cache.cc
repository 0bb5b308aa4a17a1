#include "harpe/carbon/carbon_source/intensity_cache.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <system_error>

#include "harpe/base/digest.h"
#include "harpe/base/file.h"
#include "harpe/base/json_fields.h"
#include "harpe/carbon/carbon/utc_time.h"
#include "harpe/net/http_client/percent_encoded.h"

namespace harpe::carbon {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kLongestCacheFile = 16ULL << 20;
constexpr std::size_t kLongestKeptResponse = 1U << 20;
constexpr std::size_t kMostNotes = 20;

std::string folder_of(ForecastOrigin origin) {
  return origin == ForecastOrigin::kOwn ? "own-forecasts-" : "forecasts-";
}

/// Returns a text as a file name, without slashes or a leading dot, for any name of a zone.
std::string file_name_of(const std::string& text) {
  if (text.empty()) return "_";
  std::string name = net::percent_encoded(text);
  if (name[0] == '.') name = "%2E" + name.substr(1);
  return name.substr(0, 200);
}

/// Returns a time such as "20261124T100000Z", which sorts by time.
std::string stamp_of(UtcTime time) {
  std::string text = utc_text(time);
  std::erase_if(text, [](char c) { return c == '-' || c == ':'; });
  return text;
}

/// Returns both series joined, with the values of `newer` where both have one; nullopt if they do
/// not fit.
std::optional<CachedSeries> joined_cached(const CachedSeries& older, const CachedSeries& newer) {
  const auto series = merged({.series = older.series}, {.series = newer.series});
  if (!series.ok()) return std::nullopt;
  CachedSeries both{.identity = newer.identity,
                    .series = series->series,
                    .fetched_at = std::vector<std::int64_t>(series->series.size(), 0)};
  for (const CachedSeries* from : {&older, &newer}) {
    const auto at =
        static_cast<std::size_t>((from->series.start - both.series.start) / both.series.step);
    for (std::size_t i = 0; i < from->series.size(); ++i) {
      if (from->series.known(i)) both.fetched_at[at + i] = from->fetched_at[i];
    }
  }
  return both;
}

std::optional<CachedSeries> cached_part(const CachedSeries& cached, UtcTime from, UtcTime to) {
  const auto series = part_of(cached.series, from, to);
  if (!series) return std::nullopt;
  CachedSeries part = cached;
  part.series = *series;
  const auto first = (series->start - cached.series.start) / series->step;
  part.fetched_at.assign(
      cached.fetched_at.begin() + first,
      cached.fetched_at.begin() + first + static_cast<std::ptrdiff_t>(series->size()));
  return part;
}

/// Returns true if `longer` has the values of `shorter` and more, from a longer horizon.
bool extends(const IntensitySeries& longer, const IntensitySeries& shorter) {
  const auto common = part_of(longer, shorter.start, shorter.end());
  return longer.size() > shorter.size() && common && common->start == shorter.start &&
         common->size() == shorter.size() &&
         std::ranges::equal(common->values, shorter.values, [](double a, double b) {
           return a == b || (std::isnan(a) && std::isnan(b));
         });
}

/// Removes old months to make room for one more. Counts months, because a clock may be wrong.
void make_room_for_month(const fs::path& folder, const std::string& forecasts) {
  std::vector<fs::path> months;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().filename().string().starts_with(forecasts)) months.push_back(entry.path());
  }
  std::ranges::sort(months, std::greater<>());
  while (months.size() >= IntensityCache::kMonthsOfForecasts) {
    fs::remove_all(months.back(), failed);
    months.pop_back();
  }
}

/// Removes the oldest response if there are many.
void make_room(const fs::path& responses) {
  constexpr std::size_t kMostResponses = 200;
  std::size_t count = 0;
  fs::path oldest;
  fs::file_time_type oldest_time{};
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(responses, failed)) {
    const fs::file_time_type written = entry.last_write_time(failed);
    if (failed) continue;
    if (count++ == 0 || written < oldest_time) oldest = entry.path(), oldest_time = written;
  }
  if (count >= kMostResponses) fs::remove(oldest, failed);
}

}  // namespace

fs::path IntensityCache::folder(const SourceIdentity& identity) const {
  if (directory_.empty()) return {};
  std::string name =
      std::string(kind_word(identity.kind)) + "-" + std::to_string(identity.step.count()) + "s";
  if (!identity.options.empty()) name += "-" + hexadecimal(fnv1a(identity.options));
  return directory_ / file_name_of(identity.provider) / file_name_of(identity.zone) / name;
}

bool IntensityCache::write(const fs::path& path, const std::string& text) {
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  const Status written = failed ? Status(Error::io(path.parent_path().string(), failed.message()))
                                : write_file(path, text);
  if (!written.ok() && notes_.size() < kMostNotes) {
    notes_.push_back("the cache cannot be written: " + written.error().text());
  }
  return written.ok();
}

std::optional<CachedSeries> IntensityCache::read(const fs::path& path,
                                                 const SourceIdentity& identity) {
  std::error_code missing;
  if (directory_.empty() || !fs::exists(path, missing)) return std::nullopt;
  const auto note = [&](const std::string& what) {
    if (notes_.size() < kMostNotes) notes_.push_back("a cache file is ignored: " + what);
  };
  const auto text = read_regular_file(path, kLongestCacheFile);
  if (!text.ok()) {
    note(text.error().text());
    return std::nullopt;
  }
  auto cached = parse_cached_series(*text, path.string());
  if (!cached.ok()) {
    note(cached.error().text());
    return std::nullopt;
  }
  const SourceIdentity& found = cached->identity;
  if (found.provider != identity.provider || found.zone != identity.zone ||
      found.kind != identity.kind || found.step != identity.step) {
    note(path.string() + " belongs to " + found.name());
    return std::nullopt;
  }
  return *std::move(cached);
}

void IntensityCache::keep_measured(const SourceIdentity& identity,
                                   const ProviderIntensity& measured) {
  if (directory_.empty()) return;
  const IntensitySeries& series = measured.series;
  for (UtcTime month = month_of(series.start); month < series.end(); month = next_month(month)) {
    const auto part = part_of(series, month, next_month(month));
    if (!part || part->gaps() == part->size()) continue;
    ProviderIntensity of_month = measured;
    of_month.series = *part;
    const CachedSeries fresh = cached_of(identity, of_month);
    const fs::path path = folder(identity) / ("measured-" + month_text(month));
    const auto kept = read(path, identity);
    const auto both = kept ? joined_cached(*kept, fresh) : std::nullopt;
    write(path, cached_series_text(both.value_or(fresh)));
  }
}

std::optional<CachedSeries> IntensityCache::measured(const SourceIdentity& identity, UtcTime from,
                                                     UtcTime to) {
  std::optional<CachedSeries> all;
  if (directory_.empty()) return all;
  // Limits the files that a range of centuries would read.
  constexpr int kMostMonths = 600;
  int months = 0;
  for (UtcTime month = month_of(from); month < to && months < kMostMonths;
       month = next_month(month), ++months) {
    const auto kept = read(folder(identity) / ("measured-" + month_text(month)), identity);
    const auto part = kept ? cached_part(*kept, from, to) : std::nullopt;
    if (!part) continue;
    all = all ? joined_cached(*all, *part) : part;
    if (!all) return std::nullopt;
  }
  return all;
}

void IntensityCache::keep_forecast(const SourceIdentity& identity,
                                   const ProviderIntensity& forecast, ForecastOrigin origin) {
  if (directory_.empty()) return;
  const UtcTime issued = forecast.issued_at.value_or(forecast.fetched_at);
  const fs::path month = folder(identity) / (folder_of(origin) + month_text(issued));
  const fs::path path = month / stamp_of(issued);
  std::error_code failed;
  if (!fs::exists(month, failed)) make_room_for_month(folder(identity), folder_of(origin));
  const auto kept = read(path, identity);
  if (kept && !extends(forecast.series, kept->series)) return;
  CachedSeries cached = cached_of(identity, forecast);
  cached.issued_at = issued;
  write(path, cached_series_text(cached));
}

std::optional<CachedSeries> IntensityCache::forecast(const SourceIdentity& identity, UtcTime hour,
                                                     UtcTime earliest, UtcTime latest) {
  if (directory_.empty()) return std::nullopt;
  const std::string first = stamp_of(earliest), last = stamp_of(latest);
  const std::string provided = folder_of(ForecastOrigin::kProvider);
  for (const UtcTime month : {month_of(latest), month_of(month_of(latest) - whole_days(1))}) {
    const fs::path place = folder(identity) / (provided + month_text(month));
    std::vector<std::string> stamps;
    std::error_code failed;
    for (const fs::directory_entry& entry : fs::directory_iterator(place, failed)) {
      const std::string name = entry.path().filename().string();
      if (name >= first && name <= last) stamps.push_back(name);
    }
    std::ranges::sort(stamps, std::greater<>());
    for (const std::string& stamp : stamps) {
      auto cached = read(place / stamp, identity);
      if (!cached || !cached->issued_at || *cached->issued_at > latest) continue;
      const auto part = part_of(cached->series, hour, hour + identity.step);
      if (part && part->known(0)) return cached;
    }
  }
  return std::nullopt;
}

std::vector<std::pair<std::size_t, CachedSeries>> IntensityCache::forecasts(
    const SourceIdentity& identity, ForecastOrigin origin, const std::vector<UtcTime>& times,
    WholeSeconds oldest) {
  std::vector<std::pair<std::size_t, CachedSeries>> found;
  if (directory_.empty() || times.empty()) return found;
  // Newest first: the names of the files sort by time.
  std::vector<std::pair<std::string, fs::path>> stamps;
  std::error_code failed;
  for (const fs::directory_entry& month : fs::directory_iterator(folder(identity), failed)) {
    if (!month.path().filename().string().starts_with(folder_of(origin))) continue;
    for (const fs::directory_entry& entry : fs::directory_iterator(month.path(), failed)) {
      stamps.emplace_back(entry.path().filename().string(), entry.path());
    }
  }
  std::ranges::sort(stamps, std::greater<>());
  auto next = stamps.begin();
  for (std::size_t i = 0; i < times.size(); ++i) {
    const std::string latest = stamp_of(times[i]), earliest = stamp_of(times[i] - oldest);
    while (next != stamps.end() && next->first > latest) ++next;
    if (next == stamps.end()) break;
    if (next->first < earliest) continue;
    if (auto cached = read(next->second, identity)) found.emplace_back(i, *std::move(cached));
  }
  return found;
}

std::optional<ResponseStore::Kept> IntensityCache::find(const std::string& url) {
  if (directory_.empty()) return std::nullopt;
  const fs::path path = directory_ / "responses" / hexadecimal(fnv1a(url));
  std::error_code missing;
  if (!fs::exists(path, missing)) return std::nullopt;
  const auto text = read_regular_file(path, 4 * kLongestKeptResponse);
  if (!text.ok()) return std::nullopt;
  struct Read {
    std::string url, digest;
    Kept kept;
  };
  const auto document =
      read_document<Read>(*text, path.string(), [](Fields& fields, Diagnostics&, Read& read) {
        read.url = needed(fields, "url", fields.text("url"));
        read.digest = needed(fields, "digest", fields.text("digest"));
        read.kept.etag = needed(fields, "etag", fields.text("etag"));
        read.kept.last_modified = needed(fields, "last_modified", fields.text("last_modified"));
        read.kept.content_type = needed(fields, "content_type", fields.text("content_type"));
        read.kept.body = needed(fields, "body", fields.text("body"));
      });
  if (!document.ok() || document->url != url ||
      document->digest != std::to_string(fnv1a(document->kept.body))) {
    return std::nullopt;
  }
  // A validator is sent in a request's header, which it must not end.
  for (const std::string* validator : {&document->kept.etag, &document->kept.last_modified}) {
    for (const char c : *validator) {
      if (c < ' ' || c > '~') return std::nullopt;
    }
  }
  return document->kept;
}

void IntensityCache::keep(const std::string& url, const Kept& response) {
  if (directory_.empty() || response.body.size() > kLongestKeptResponse) return;
  const nlohmann::ordered_json document = {{"url", url},
                                           {"digest", std::to_string(fnv1a(response.body))},
                                           {"etag", response.etag},
                                           {"last_modified", response.last_modified},
                                           {"content_type", response.content_type},
                                           {"body", response.body}};
  make_room(directory_ / "responses");
  write(directory_ / "responses" / hexadecimal(fnv1a(url)), json_line(document) + "\n");
}

fs::path carbon_cache_directory(const EnvironmentVariable& variable) {
  if (const auto given = variable("HARPE_CARBON_CACHE")) {
    return *given == "off" ? fs::path() : fs::path(*given);
  }
  if (const auto cache = variable("XDG_CACHE_HOME")) return fs::path(*cache) / "harpe" / "carbon";
  if (const auto home = variable("HOME")) return fs::path(*home) / ".cache" / "harpe" / "carbon";
  return {};
}

}  // namespace harpe::carbon
