// Documents written from the platform's guide; none was recorded.

#include "harpe/carbon/carbon_source/entsoe_prices.h"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <string>
#include <vector>

#include "harpe/carbon/carbon/intensity_series.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {
namespace {

constexpr const char* kZone = "10Y1001A1001A82H";

struct Series {
  std::string start = "2026-01-01T00:00Z", end = "2026-01-01T04:00Z";
  std::string resolution = "PT60M";
  std::string curve = "A03";
  std::string money = "EUR", per = "MWH";
  std::string contract = "A01";
  std::string sequence = "";
};

std::string time_series(const Series& series, const std::vector<std::pair<int, double>>& prices) {
  std::string points;
  for (const auto& [position, price] : prices) {
    points += "<Point><position>" + std::to_string(position) + "</position><price.amount>" +
              std::to_string(price) + "</price.amount></Point>";
  }
  const std::string sequence =
      series.sequence.empty()
          ? ""
          : "<classificationSequence_AttributeInstanceComponent.position>" + series.sequence +
                "</classificationSequence_AttributeInstanceComponent.position>";
  return "<TimeSeries><mRID>1</mRID><auction.type>A01</auction.type><businessType>A62"
         "</businessType><in_Domain.mRID codingScheme=\"A01\">10Y1001A1001A82H</in_Domain.mRID>"
         "<out_Domain.mRID codingScheme=\"A01\">10Y1001A1001A82H</out_Domain.mRID>"
         "<contract_MarketAgreement.type>" +
         series.contract + "</contract_MarketAgreement.type><currency_Unit.name>" + series.money +
         "</currency_Unit.name><price_Measure_Unit.name>" + series.per +
         "</price_Measure_Unit.name>" + sequence + "<curveType>" + series.curve +
         "</curveType><Period><timeInterval><start>" + series.start + "</start><end>" + series.end +
         "</end></timeInterval><resolution>" + series.resolution + "</resolution>" + points +
         "</Period></TimeSeries>";
}

std::string document(const std::string& series) {
  return "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<Publication_MarketDocument "
         "xmlns=\"urn:iec62325.351:tc57wg16:451-3:publicationdocument:7:3\"><mRID>a</mRID>"
         "<type>A44</type>" +
         series + "</Publication_MarketDocument>";
}

Result<DayAheadPrices> parsed(const std::string& series, WholeSeconds step = whole_hours(1)) {
  return parse_entsoe_prices(document(series), step, kZone);
}

TEST(EntsoePrices, KeepCurrencyAndSign) {
  const auto prices = parsed(time_series({}, {{1, 81.5}, {2, -0.01}, {3, -500}, {4, 4000}}));
  ASSERT_TRUE(prices.ok()) << prices.error().text();
  EXPECT_EQ(prices->money, "EUR");
  const IntensitySeries& series = prices->prices.series;
  EXPECT_EQ(series.kind, IntensityKind::kPrice);
  EXPECT_EQ(series.zone, kZone);
  EXPECT_EQ(series.values, (std::vector<double>{81.5, -0.01, -500, 4000}));
  EXPECT_EQ(utc_text(series.start), "2026-01-01T00:00:00Z");
  EXPECT_EQ(parsed(time_series({.money = "PLN"}, {{1, 1}}))->money, "PLN");
}

TEST(EntsoePrices, MixWithNoIntensity) {
  const auto prices = parsed(time_series({}, {{1, 81.5}}));
  for (const auto kind : {IntensityKind::kAverageLifecycle, IntensityKind::kAverageDirect,
                          IntensityKind::kMarginal, IntensityKind::kUnstated}) {
    IntensitySeries grams = prices->prices.series;
    grams.kind = kind;
    grams.start += whole_hours(24);
    EXPECT_FALSE(joined(prices->prices.series, grams).ok());
    EXPECT_FALSE(merged(prices->prices, {.series = grams}).ok());
  }
}

TEST(EntsoePrices, AMissingPositionRepeatsInCurvesOfThatTypeAlone) {
  EXPECT_EQ(parsed(time_series({}, {{1, 10}, {3, 30}}))->prices.series.values,
            (std::vector<double>{10, 10, 30, 30}));
  const auto gaps = parsed(time_series({.curve = "A01"}, {{1, 10}, {3, 30}}));
  ASSERT_EQ(gaps->prices.series.size(), 3U);
  EXPECT_TRUE(std::isnan(gaps->prices.series.values[1]));
}

TEST(EntsoePrices, BringAllResolutionsToOneStep) {
  const std::string quarters = time_series({.end = "2026-01-01T01:00Z", .resolution = "PT15M"},
                                           {{1, 100}, {2, -200}, {3, 300}, {4, 400}});
  EXPECT_EQ(parsed(quarters)->prices.series.values, std::vector<double>{150});
  EXPECT_EQ(parsed(quarters, whole_minutes(15))->prices.series.values,
            (std::vector<double>{100, -200, 300, 400}));
  EXPECT_EQ(parsed(time_series({.end = "2026-01-01T01:00Z"}, {{1, 7}}), whole_minutes(15))
                ->prices.series.values,
            (std::vector<double>{7, 7, 7, 7}));
}

// One document may have two auctions (Germany and Austria), and also intraday auctions (Spain).
TEST(EntsoePrices, TheCoupledAuctionCountsWhateverTheOrder) {
  const std::string coupled = time_series({.sequence = "1"}, {{1, 10}, {2, 20}, {3, 30}, {4, 40}});
  const std::string morning = time_series({.resolution = "PT15M", .sequence = "2"}, {{1, 99}});
  const std::string intraday = time_series({.contract = "A07"}, {{1, 1000}});
  for (const std::string& all : {coupled + morning + intraday, intraday + morning + coupled}) {
    const auto prices = parsed(all);
    ASSERT_TRUE(prices.ok()) << prices.error().text();
    EXPECT_EQ(prices->prices.series.values, (std::vector<double>{10, 20, 30, 40}));
    EXPECT_TRUE(prices->prices.notes.empty());
  }
  const std::string late = time_series({.end = "2026-01-01T02:00Z", .sequence = "1"}, {{1, 10}});
  const auto partly = parsed(morning + late);
  EXPECT_EQ(partly->prices.series.values, (std::vector<double>{10, 10, 99, 99}));
  ASSERT_EQ(partly->prices.notes.size(), 1U);
  EXPECT_TRUE(partly->prices.notes[0].starts_with("2 prices are from another auction"));
  // From the time before auctions were numbered: quarter-hours belong to another auction.
  EXPECT_EQ(parsed(time_series({.resolution = "PT15M"}, {{1, 99}}) + time_series({}, {{1, 10}}))
                ->prices.series.values,
            (std::vector<double>{10, 10, 10, 10}));
}

TEST(EntsoePrices, DaysOfASwitchOfSummerTimeHaveTheirHours) {
  const auto prices =
      parsed(time_series({.start = "2026-03-27T23:00Z", .end = "2026-03-28T23:00Z"}, {{1, 1}}) +
             time_series({.start = "2026-03-28T23:00Z", .end = "2026-03-29T22:00Z"}, {{1, 2}}));
  ASSERT_TRUE(prices.ok());
  EXPECT_EQ(prices->prices.series.size(), 24U + 23U);
  EXPECT_EQ(prices->prices.series.gaps(), 0U);
}

TEST(EntsoePrices, AnAcknowledgementIsNoData) {
  const auto none = parse_entsoe_prices(
      "<Acknowledgement_MarketDocument><Reason><code>999</code><text>No matching data found for "
      "Data item ENERGY_PRICES [12.1.D]</text></Reason></Acknowledgement_MarketDocument>",
      whole_hours(1), kZone);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_NE(none.error().text().find("ENERGY_PRICES"), std::string::npos);
}

TEST(EntsoePrices, SayWhatIsWrongWithADocument) {
  struct Wrong {
    std::string series, why;
  };
  for (const Wrong& wrong : std::initializer_list<Wrong>{
           {"", "no price"},
           {time_series({}, {}), "no price"},
           {time_series({.contract = "A07"}, {{1, 1}}), "no price"},
           {time_series({.money = "euro"}, {{1, 1}}), "a currency"},
           {time_series({.money = ""}, {{1, 1}}), "a currency"},
           {time_series({.per = "KWH"}, {{1, 1}}), "prices per MWH"},
           {time_series({}, {{1, 1}}) + time_series({.money = "BGN"}, {{1, 1}}),
            "prices in EUR and in BGN"},
           {time_series({.sequence = "x"}, {{1, 1}}), "number of an auction"},
           {time_series({.sequence = "0"}, {{1, 1}}), "number of an auction"},
           {time_series({}, {{0, 1}}), "outside its period"},
           {time_series({}, {{5, 1}}), "outside its period"},
           {time_series({}, {{1, 2e9}}), "expected a price"},
           {time_series({.resolution = "P1Y"}, {{1, 1}}), "unknown resolution"},
           {time_series({.start = "yesterday"}, {{1, 1}}), "no valid start and end"},
           {time_series({.end = "2190-01-01T00:00Z"}, {{1, 1}}), "too many points"},
           {time_series({}, {{1, 1}}) +
                time_series({.start = "2180-01-01T00:00Z", .end = "2180-01-02T00:00Z"}, {{1, 1}}),
            "too far apart"}}) {
    const auto prices = parsed(wrong.series);
    ASSERT_FALSE(prices.ok()) << wrong.series;
    EXPECT_NE(prices.error().text().find(wrong.why), std::string::npos) << prices.error().text();
  }
  // Neither a document of generation nor a web page is a document of prices.
  for (const char* xml : {"", "<GL_MarketDocument/>", "<html/>", "<Publication_MarketDocument>"}) {
    EXPECT_FALSE(parse_entsoe_prices(xml, whole_hours(1), kZone).ok()) << xml;
  }
}

}  // namespace
}  // namespace harpe::carbon
