#include "harpe/carbon/carbon_source/intensity_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "harpe/base/file.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {
namespace {

namespace fs = std::filesystem;

const SourceIdentity kDe{.provider = "electricity-maps",
                         .zone = "DE",
                         .kind = IntensityKind::kAverageLifecycle,
                         .step = whole_hours(1)};

UtcTime cache_time(const std::string& text) {
  return parse_utc(text).value();
}

ProviderIntensity values(const std::string& start, std::vector<double> grams,
                         const std::string& fetched_at, const SourceIdentity& identity = kDe) {
  const std::size_t size = grams.size();
  return {.series = {.start = cache_time(start),
                     .step = identity.step,
                     .values = std::move(grams),
                     .estimated = std::vector<std::uint8_t>(size, 0),
                     .kind = identity.kind,
                     .zone = identity.zone,
                     .source = "Example"},
          .fetched_at = cache_time(fetched_at)};
}

/// Returns all files below the directory.
std::vector<fs::path> files_of(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

TEST(IntensityCache, KeepsWhatWasMeasuredOverMonthsWithTheTimeOfEachValue) {
  const TestDirectory directory;
  IntensityCache cache(directory.path());
  cache.keep_measured(kDe,
                      values("2026-01-31T22:00Z", {1, 2, 3, kNoValue, 5}, "2026-02-01T03:00Z"));
  cache.keep_measured(kDe, values("2026-02-01T00:00Z", {30, 4}, "2026-02-01T09:00Z"));
  IntensityCache later(directory.path());
  const auto kept =
      later.measured(kDe, cache_time("2026-01-31T23:00Z"), cache_time("2026-02-01T10:00Z"));
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->series.values, (std::vector<double>{2, 30, 4, 5}));
  EXPECT_EQ(kept->series.start, cache_time("2026-01-31T23:00Z"));
  EXPECT_EQ(kept->series.source, "Example");
  const auto early = cache_time("2026-02-01T03:00Z").since_1970;
  const auto late = cache_time("2026-02-01T09:00Z").since_1970;
  EXPECT_EQ(kept->fetched_at, (std::vector<std::int64_t>{early, late, late, early}));
  EXPECT_EQ(files_of(directory.path()).size(), 2u);
  EXPECT_TRUE(later.take_notes().empty());
  EXPECT_FALSE(later.measured(kDe, cache_time("2026-03-01"), cache_time("2026-03-02")));
}

TEST(IntensityCache, MixesNoKindsStepsOrZones) {
  const TestDirectory directory;
  IntensityCache cache(directory.path());
  cache.keep_measured(kDe, values("2026-01-01", {1}, "2026-01-01T03:00Z"));
  SourceIdentity direct = kDe, quarter = kDe, france = kDe, other = kDe;
  direct.kind = IntensityKind::kAverageDirect;
  quarter.step = whole_minutes(15);
  france.zone = "FR";
  other.provider = "entsoe";
  for (const SourceIdentity& identity : {direct, quarter, france, other}) {
    EXPECT_FALSE(cache.measured(identity, cache_time("2026-01-01"), cache_time("2026-01-02")));
  }
  // A file copied to the place of another file.
  const fs::path mine = files_of(directory.path())[0];
  cache.keep_measured(france, values("2026-01-01", {2}, "2026-01-01T03:00Z", france));
  const fs::path theirs = files_of(directory.path())[1];
  ASSERT_NE(mine, theirs);
  fs::copy_file(mine, theirs, fs::copy_options::overwrite_existing);
  EXPECT_FALSE(cache.measured(france, cache_time("2026-01-01"), cache_time("2026-01-02")));
  EXPECT_EQ(cache.take_notes().size(), 1u);
}

TEST(IntensityCache, MixesNoValuesOfDifferentOptions) {
  const TestDirectory directory;
  SourceIdentity own = kDe;
  own.options = "factors=B04=370";
  IntensityCache cache(directory.path());
  cache.keep_measured(kDe, values("2026-01-01T00:00Z", {1}, "2026-01-01T03:00Z"));
  const auto of = [&](const SourceIdentity& identity) {
    return cache.measured(identity, cache_time("2026-01-01T00:00Z"),
                          cache_time("2026-01-01T01:00Z"));
  };
  EXPECT_FALSE(of(own));
  cache.keep_measured(own, values("2026-01-01T00:00Z", {7}, "2026-01-01T03:00Z"));
  EXPECT_EQ(of(own)->series.values, std::vector<double>{7});
  EXPECT_EQ(of(kDe)->series.values, std::vector<double>{1});
}

TEST(IntensityCache, StrangeZonesStayWithinTheDirectory) {
  const TestDirectory directory;
  IntensityCache cache(directory / "cache");
  for (const char* zone : {"..", "../../x", ".hidden", "", "a/b", "\xc3\xa9"}) {
    SourceIdentity identity = kDe;
    identity.zone = zone;
    cache.keep_measured(identity, values("2026-01-01", {1}, "2026-01-01T03:00Z", identity));
    EXPECT_TRUE(cache.measured(identity, cache_time("2026-01-01"), cache_time("2026-01-02")))
        << zone;
  }
  EXPECT_EQ(files_of(directory / "cache").size(), 6u);
  EXPECT_EQ(files_of(directory.path()).size(), 6u);
}

TEST(IntensityCache, KeepsForecastsAsTheyWereIssued) {
  const TestDirectory directory;
  IntensityCache cache(directory.path());
  const auto forecast = [](const std::string& issued, std::vector<double> grams) {
    ProviderIntensity made = values("2026-01-31T23:00Z", std::move(grams), "2026-01-31T23:10Z");
    made.issued_at = cache_time(issued);
    return made;
  };
  cache.keep_forecast(kDe, forecast("2026-01-31T22:00Z", {1, 2}));
  cache.keep_forecast(kDe, forecast("2026-01-31T23:00Z", {10, 20}));
  cache.keep_forecast(kDe, forecast("2026-01-31T23:00Z", {10, 20, 30}));  // longer
  cache.keep_forecast(kDe, forecast("2026-01-31T23:00Z", {99, 99, 99}));  // ignored: not longer
  cache.keep_forecast(kDe, forecast("2026-02-01T00:00Z", {7}));
  const auto first_of = [&](const std::string& hour, const std::string& latest) {
    const auto found =
        cache.forecast(kDe, cache_time(hour), cache_time("2026-01-01"), cache_time(latest));
    return found ? found->series.values[0] : -1;
  };
  EXPECT_EQ(first_of("2026-02-01T00:00Z", "2026-02-01T00:30Z"), 10);  // the newest ends before that
  EXPECT_EQ(first_of("2026-01-31T23:00Z", "2026-02-01T00:30Z"), 7);
  EXPECT_EQ(first_of("2026-01-31T23:00Z", "2026-01-31T23:30Z"), 10);
  EXPECT_EQ(first_of("2026-01-31T23:00Z", "2026-01-31T22:30Z"), 1);
  EXPECT_EQ(first_of("2026-01-31T23:00Z", "2026-01-31T21:30Z"), -1);
  EXPECT_EQ(first_of("2026-02-01T02:00Z", "2026-02-01T01:30Z"), -1);
  EXPECT_FALSE(cache.forecast(kDe, cache_time("2026-01-31T23:00Z"), cache_time("2026-02-01T00:10Z"),
                              cache_time("2026-02-01T01:00Z")));
}

TEST(IntensityCache, ForecastsOfTheOldestMonthsGo) {
  const TestDirectory directory;
  IntensityCache cache(directory.path());
  UtcTime month = cache_time("2025-01-01");
  for (int i = 0; i < 20; ++i, month = next_month(month)) {
    ProviderIntensity made = values(utc_text(month), {1, 2}, utc_text(month));
    made.issued_at = month;
    cache.keep_forecast(kDe, made);
  }
  const std::size_t kept = IntensityCache::kMonthsOfForecasts;
  EXPECT_EQ(files_of(directory.path()).size(), kept);
  EXPECT_FALSE(cache.forecast(kDe, cache_time("2025-05-01"), cache_time("2025-05-01"),
                              cache_time("2025-05-02")));
  EXPECT_TRUE(cache.forecast(kDe, cache_time("2026-08-01"), cache_time("2026-08-01"),
                             cache_time("2026-08-02")));
  EXPECT_TRUE(cache.forecast(kDe, cache_time("2025-07-01"), cache_time("2025-07-01"),
                             cache_time("2025-07-02")));
}

TEST(IntensityCache, PassesOverDamagedFilesWithANoteAndWritesThemAnew) {
  const TestDirectory directory;
  const auto seed = std::random_device()();
  std::mt19937 random(seed);
  IntensityCache cache(directory.path());
  cache.keep_measured(kDe, values("2026-01-01", {1, 2, 3}, "2026-01-01T03:00Z"));
  const fs::path path = files_of(directory.path())[0];
  const std::string whole = read_file(path).value();
  for (int i = 0; i < 300; ++i) {
    std::string damaged = whole;
    const std::size_t where = random() % whole.size();
    if (i % 3 == 0) damaged.resize(where);
    if (i % 3 == 1) damaged[where] = static_cast<char>(damaged[where] ^ (1 << random() % 8));
    if (i % 3 == 2) damaged.insert(where, 1, static_cast<char>(random()));
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    EXPECT_FALSE(cache.measured(kDe, cache_time("2026-01-01"), cache_time("2026-01-02")))
        << "seed " << seed;
    EXPECT_EQ(cache.take_notes().size(), 1u) << "seed " << seed;
  }
  cache.keep_measured(kDe, values("2026-01-01", {4}, "2026-01-01T03:00Z"));
  EXPECT_EQ(
      cache.measured(kDe, cache_time("2026-01-01"), cache_time("2026-01-02")).value().series.values,
      std::vector<double>{4});
}

TEST(IntensityCache, ADiskThatTakesNothingGivesANoteAndLeavesWhatWasThere) {
  const TestDirectory directory;
  IntensityCache cache(directory.path());
  cache.keep_measured(kDe, values("2026-01-01", {1}, "2026-01-01T03:00Z"));
  // A limit on file sizes simulates a full disk.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  rlimit none = before;
  none.rlim_cur = 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  cache.keep_measured(kDe, values("2026-01-01", {2}, "2026-01-01T04:00Z"));
  cache.keep("https://example/now", {.etag = "e", .body = "{}"});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);
  const auto notes = cache.take_notes();
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[0].find("the cache cannot be written"), std::string::npos);
  EXPECT_EQ(
      cache.measured(kDe, cache_time("2026-01-01"), cache_time("2026-01-02")).value().series.values,
      std::vector<double>{1});
  EXPECT_EQ(files_of(directory.path()).size(), 1u);  // no partial file is left
}

TEST(IntensityCache, WithoutADirectoryNothingIsKept) {
  IntensityCache cache("");
  cache.keep_measured(kDe, values("2026-01-01", {1}, "2026-01-01T03:00Z"));
  cache.keep("https://example/now", {.etag = "e", .body = "{}"});
  EXPECT_FALSE(cache.measured(kDe, cache_time("2026-01-01"), cache_time("2026-01-02")));
  EXPECT_FALSE(cache.find("https://example/now"));
  EXPECT_TRUE(cache.take_notes().empty());
  const TestDirectory directory;
  std::ofstream(directory / "file") << "x";
  IntensityCache blocked(directory / "file");
  blocked.keep_measured(kDe, values("2026-01-01", {1}, "2026-01-01T03:00Z"));
  EXPECT_EQ(blocked.take_notes().size(), 1u);
}

TEST(IntensityCache, KeepsResponsesWithTheirValidators) {
  const TestDirectory directory;
  IntensityCache cache(directory.path());
  const ResponseStore::Kept response{.etag = "\"e\"",
                                     .last_modified = "",
                                     .content_type = "application/json",
                                     .body = "{\"a\":1}"};
  cache.keep("https://example/now?t=***", response);
  const auto found = cache.find("https://example/now?t=***");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->body, response.body);
  EXPECT_EQ(found->etag, response.etag);
  EXPECT_FALSE(cache.find("https://example/then"));
  const fs::path path = files_of(directory.path())[0];
  std::string text = read_file(path).value();
  text.replace(text.find("\\\"a\\\":1"), 7, "\\\"a\\\":2");
  std::ofstream(path, std::ios::trunc) << text;
  EXPECT_FALSE(cache.find("https://example/now?t=***"));
  for (int i = 1; i < 200; ++i) fs::copy_file(path, path.parent_path() / std::to_string(i));
  for (int i = 0; i < 3; ++i) cache.keep("https://example/" + std::to_string(i), response);
  EXPECT_EQ(files_of(directory.path()).size(), 200u);
}

TEST(IntensityCache, ItsDirectoryComesFromTheEnvironment) {
  const auto directory = [](const std::string& name, const std::string& value) {
    return carbon_cache_directory([=](const std::string& asked) {
      return asked == name ? std::optional(value) : std::nullopt;
    });
  };
  EXPECT_EQ(directory("HARPE_CARBON_CACHE", "/c"), "/c");
  EXPECT_EQ(directory("HARPE_CARBON_CACHE", "off"), "");
  EXPECT_EQ(directory("XDG_CACHE_HOME", "/x"), "/x/harpe/carbon");
  EXPECT_EQ(directory("HOME", "/h"), "/h/.cache/harpe/carbon");
  EXPECT_EQ(directory("OTHER", "/h"), "");
}

}  // namespace
}  // namespace harpe::carbon
