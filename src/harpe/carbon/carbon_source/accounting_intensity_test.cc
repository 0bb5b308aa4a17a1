#include "harpe/carbon/carbon_source/accounting_intensity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "harpe/base/file.h"
#include "harpe/base/test_directory_testing.h"

namespace harpe::carbon {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using B = IntensityBasis;

UtcTime at(const std::string& text) {
  return parse_utc(text).value();
}

/// A source of the hours that the test sets, and of the present if the test sets it.
class NamedHours final : public CarbonSource {
 public:
  SourceIdentity identity() const override {
    return {.provider = "example", .zone = "DE", .kind = IntensityKind::kAverageDirect};
  }
  Result<LabelledIntensity> current() override {
    if (!present) return Error::of(ErrorCode::kUnavailable, "no present");
    return *present;
  }
  Result<LabelledForecast> forecast(WholeSeconds) override {
    return Error::of(ErrorCode::kNotSupported, "no forecast");
  }
  Result<LabelledHistory> history(UtcTime from, UtcTime to) override {
    asked.emplace_back(from, to);
    LabelledHistory history;
    history.series = {.start = from, .kind = kind, .zone = "DE", .source = "example.org"};
    bool any = false;
    for (UtcTime time = from; time < to; time += whole_hours(1)) {
      const auto found = hours.find(time);
      any = any || found != hours.end();
      history.series.values.push_back(found == hours.end() ? kNoValue : found->second);
      history.series.estimated.push_back(time == estimated ? 1 : 0);
      history.fetched_at.push_back(
          found == hours.end() ? 0 : 1'793'000'000 + 60 * found->first.since_1970 % 7);
    }
    if (!any) return Error::of(ErrorCode::kUnavailable, "example.org does not respond");
    return history;
  }
  std::string method() const override { return "as told"; }

  std::map<UtcTime, double> hours;
  UtcTime estimated{};
  IntensityKind kind = IntensityKind::kAverageDirect;
  std::optional<LabelledIntensity> present;
  std::vector<std::pair<UtcTime, UtcTime>> asked;
};

const SourceSpecification kProvider{.provider = SourceSpecification::Provider::kUk};
const SourceSpecification kWithMean{.provider = SourceSpecification::Provider::kUk,
                                    .yearly_mean = 381};

TEST(AccountingIntensity, TakesWhatIsMeasured) {
  NamedHours source;
  source.hours = {{at("2026-11-25T03:00Z"), 300}, {at("2026-11-25T04:00Z"), 310}};
  source.estimated = at("2026-11-25T04:00Z");
  const auto found =
      accounting_intensity(source, kProvider, at("2026-11-25T03:20Z"), at("2026-11-25T04:10Z"));
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_EQ(found->intensity.series.start, at("2026-11-25T03:00Z"));
  EXPECT_THAT(found->intensity.series.values, ElementsAre(300, 310));
  EXPECT_THAT(found->intensity.bases, ElementsAre(B::kMeasured, B::kEstimated));
  EXPECT_EQ(found->data_source, "example.org");
  EXPECT_EQ(found->method, "as told");
  EXPECT_TRUE(found->fetched_from.has_value());
  EXPECT_EQ(source.asked.size(), 1U) << "no gap: the week before is not needed";
}

TEST(AccountingIntensity, AsksForTheWeekBeforeWhereThereAreGaps) {
  NamedHours source;
  source.hours = {{at("2026-11-25T00:00Z"), 300}, {at("2026-11-18T03:00Z"), 222}};
  const auto found =
      accounting_intensity(source, kProvider, at("2026-11-25T00:00Z"), at("2026-11-25T05:00Z"));
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_THAT(found->intensity.bases, ElementsAre(B::kMeasured, B::kNeighbour, B::kNeighbour,
                                                  B::kSameHourLastWeek, B::kNone));
  EXPECT_EQ(found->intensity.series.values[3], 222);
  const auto with_mean =
      accounting_intensity(source, kWithMean, at("2026-11-25T00:00Z"), at("2026-11-25T05:00Z"));
  ASSERT_TRUE(with_mean.ok());
  EXPECT_EQ(with_mean->intensity.bases[4], B::kYearlyMean);
  EXPECT_EQ(with_mean->intensity.series.values[4], 381);
}

TEST(AccountingIntensity, StandsOnThePresentWhereThereIsNoHistory) {
  NamedHours source;
  source.present =
      LabelledIntensity{.intensity = {.grams_per_kwh = 250, .kind = IntensityKind::kAverageDirect},
                        .start = at("2026-11-25T03:00Z"),
                        .step = whole_hours(1),
                        .ladder = LadderStep::kForecast};
  const auto found =
      accounting_intensity(source, kProvider, at("2026-11-25T00:00Z"), at("2026-11-25T04:00Z"));
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_THAT(found->intensity.bases,
              ElementsAre(B::kNone, B::kForecast, B::kForecast, B::kForecast));
  EXPECT_THAT(found->notes, testing::Contains(HasSubstr("does not respond")));
}

TEST(AccountingIntensity, StandsOnTheYearlyMeanOrSaysWhatIsWrong) {
  NamedHours source;
  const UtcTime from = at("2026-11-25T00:00Z"), to = at("2026-11-25T04:00Z");
  const auto none = accounting_intensity(source, kProvider, from, to);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(none.error().text(), HasSubstr("does not respond"));
  const auto mean = accounting_intensity(source, kWithMean, from, to);
  ASSERT_TRUE(mean.ok());
  EXPECT_THAT(mean->intensity.bases, Each(B::kYearlyMean));
}

TEST(AccountingIntensity, NeverTakesAnotherKind) {
  NamedHours source;
  source.hours = {{at("2026-11-25T00:00Z"), 300}};
  source.kind = IntensityKind::kMarginal;
  const auto found =
      accounting_intensity(source, kProvider, at("2026-11-25T00:00Z"), at("2026-11-25T01:00Z"));
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(found->intensity.bases, ElementsAre(B::kNone));
}

TEST(AccountingIntensity, OfANumberIsThatNumber) {
  ManualClock clock;
  const auto number = *parse_source("302.5");
  const auto source = open_source(number, {.clock = clock});
  ASSERT_TRUE(source.ok());
  const auto found =
      accounting_intensity(**source, number, at("2026-11-25T00:10Z"), at("2026-11-25T02:10Z"));
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_THAT(found->intensity.series.values, ElementsAre(302.5, 302.5, 302.5));
  EXPECT_THAT(found->intensity.bases, Each(B::kGivenNumber));
}

TEST(AccountingIntensity, OfAFileReadsItsRows) {
  const TestDirectory directory;
  const std::string path = (directory / "day.csv").string();
  ASSERT_TRUE(write_file(path, "time,g\n2026-11-25T00:00Z,100\n2026-11-25T01:00Z,300\n").ok());
  ManualClock clock;
  const auto file = *parse_source("file:" + path + "?time=time&value=g&unit=g/kWh&kind=direct");
  const auto source = open_source(
      file, {.clock = clock, .now = [] { return at("2026-11-26"); }, .cache = {}, .offline = true});
  ASSERT_TRUE(source.ok()) << source.error().text();
  const auto found =
      accounting_intensity(**source, file, at("2026-11-25T00:00Z"), at("2026-11-25T06:00Z"));
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_THAT(found->intensity.bases, ElementsAre(B::kMeasured, B::kMeasured, B::kNeighbour,
                                                  B::kNeighbour, B::kNone, B::kNone));
}

}  // namespace
}  // namespace harpe::carbon
