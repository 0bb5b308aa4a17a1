// Documents written from the platform's guide; none was recorded.

#include "harpe/carbon/carbon_source/entsoe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {
namespace {

std::string points(const std::vector<std::pair<int, double>>& values) {
  std::string text;
  for (const auto& [position, megawatts] : values) {
    text += "<Point><position>" + std::to_string(position) + "</position><quantity>" +
            std::to_string(megawatts) + "</quantity></Point>\n";
  }
  return text;
}

struct EntsoeSeries {
  std::string type = "B04";
  std::string start = "2026-01-01T00:00Z", end = "2026-01-01T04:00Z";
  std::string resolution = "PT60M";
  std::string curve = "A01";
  bool generated = true;
};

std::string entsoe_series(const EntsoeSeries& series,
                          const std::vector<std::pair<int, double>>& values) {
  const std::string domain =
      series.generated ? "inBiddingZone_Domain.mRID" : "outBiddingZone_Domain.mRID";
  return "<TimeSeries><mRID>1</mRID><businessType>A01</businessType><" + domain +
         " codingScheme=\"A01\">10Y1001A1001A82H</" + domain +
         "><quantity_Measure_Unit.name>MAW</quantity_Measure_Unit.name><curveType>" + series.curve +
         "</curveType>" +
         (series.type.empty() ? ""
                              : "<MktPSRType><psrType>" + series.type + "</psrType></MktPSRType>") +
         "<Period><timeInterval><start>" + series.start + "</start><end>" + series.end +
         "</end></timeInterval><resolution>" + series.resolution + "</resolution>" +
         points(values) + "</Period></TimeSeries>";
}

std::string entsoe_document(const std::string& series) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
         "<GL_MarketDocument xmlns=\"urn:iec62325.351:tc57wg16:451-6:generationloaddocument:3:0\">"
         "<mRID>a</mRID><type>A75</type>" +
         series + "</GL_MarketDocument>";
}

ProviderIntensity intensity(const std::string& xml, const std::vector<EmissionFactor>& factors =
                                                        default_emission_factors()) {
  const auto generation = parse_entsoe(xml, whole_hours(1));
  EXPECT_TRUE(generation.ok()) << (generation.ok() ? "" : generation.error().text());
  const auto answer = intensity_of_generation(*generation, factors, "10Y1001A1001A82H");
  EXPECT_TRUE(answer.ok()) << (answer.ok() ? "" : answer.error().text());
  return *answer;
}

TEST(Entsoe, WeighsFactorsByGeneration) {
  const ProviderIntensity answer = intensity(
      entsoe_document(entsoe_series({.type = "B04"}, {{1, 300}, {2, 300}, {3, 0}, {4, 100}}) +
                      entsoe_series({.type = "B19"}, {{1, 100}, {2, 300}, {3, 50}, {4, 0}})));
  EXPECT_EQ(answer.series.kind, IntensityKind::kAverageLifecycle);
  EXPECT_EQ(answer.series.zone, "10Y1001A1001A82H");
  ASSERT_EQ(answer.series.size(), 4u);
  EXPECT_NEAR(answer.series.values[0], (300 * 490 + 100 * 11) / 400.0, 1e-9);
  EXPECT_NEAR(answer.series.values[1], (490 + 11) / 2.0, 1e-9);
  EXPECT_NEAR(answer.series.values[2], 11, 1e-9);
  EXPECT_NEAR(answer.series.values[3], 490, 1e-9);
  const auto factors = parse_emission_factors("B04=400, B19=none # own figures").value();
  EXPECT_NEAR(intensity(entsoe_document(entsoe_series({.type = "B04"}, {{1, 300}}) +
                                        entsoe_series({.type = "B19"}, {{1, 100}})),
                        factors)
                  .series.values[0],
              400, 1e-9);
}

TEST(Entsoe, AMissingPositionRepeatsInCurvesOfThatTypeAlone) {
  for (const bool repeats : {true, false}) {
    const auto power = parse_entsoe(
        entsoe_document(entsoe_series({.curve = repeats ? "A03" : "A01"}, {{1, 10}, {3, 30}})),
        whole_hours(1));
    ASSERT_TRUE(power.ok()) << power.error().text();
    const std::vector<double>& values = power->megawatts.at("B04");
    EXPECT_EQ(values[0], 10);
    EXPECT_EQ(values[2], 30);
    if (repeats) {
      ASSERT_EQ(values.size(), 4u);
      EXPECT_EQ(values[1], 10);
      EXPECT_EQ(values[3], 30);  // up to the end of the period
    } else {
      ASSERT_EQ(values.size(), 3u);
      EXPECT_TRUE(std::isnan(values[1]));
    }
  }
}

TEST(Entsoe, BringsAllResolutionsToOneStep) {
  const std::string xml = entsoe_document(
      entsoe_series({.type = "B04", .end = "2026-01-01T01:00Z", .resolution = "PT15M"},
                    {{1, 100}, {2, 200}, {3, 300}, {4, 400}}) +
      entsoe_series({.type = "B19", .end = "2026-01-01T01:00Z", .resolution = "PT30M"},
                    {{1, 10}, {2, 30}}) +
      entsoe_series({.type = "B16", .end = "2026-01-01T01:00Z"}, {{1, 7}}));
  const auto hourly = parse_entsoe(xml, whole_hours(1)).value();
  EXPECT_EQ(hourly.megawatts.at("B04"), std::vector<double>{250});
  EXPECT_EQ(hourly.megawatts.at("B19"), std::vector<double>{20});
  EXPECT_EQ(hourly.megawatts.at("B16"), std::vector<double>{7});
  const auto quarters = parse_entsoe(xml, whole_minutes(15)).value();
  EXPECT_EQ(quarters.megawatts.at("B04"), (std::vector<double>{100, 200, 300, 400}));
  EXPECT_EQ(quarters.megawatts.at("B19"), (std::vector<double>{10, 10, 30, 30}));
  EXPECT_EQ(quarters.megawatts.at("B16"), (std::vector<double>{7, 7, 7, 7}));
}

/// Two values of one time were once averaged.
TEST(Entsoe, NamesBothPlacesOfTwoValuesOfOneTime) {
  const std::string one = entsoe_series({.end = "2026-01-01T02:00Z"}, {{1, 100}, {2, 200}});
  const auto twice = [&](const std::string& other) {
    return parse_entsoe(entsoe_document(one + other), whole_hours(1));
  };
  EXPECT_EQ(twice(one).value().megawatts.at("B04"), (std::vector<double>{100, 200}));
  const auto refused = twice(entsoe_series(
      {.start = "2026-01-01T01:00Z", .end = "2026-01-01T03:00Z"}, {{1, 300}, {2, 50}}));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text().find("two values for 2026-01-01T01:00:00Z: 200 in the period at "
                                        "byte "),
            std::string::npos)
      << refused.error().text();
  EXPECT_NE(refused.error().text().find("and 300 in the period at byte "), std::string::npos);
  const auto position =
      parse_entsoe(entsoe_document(entsoe_series({}, {{1, 100}, {1, 200}})), whole_hours(1));
  ASSERT_FALSE(position.ok());
  EXPECT_NE(position.error().text().find("position 1 occurs twice, with 100 and, at byte "),
            std::string::npos);
}

TEST(Entsoe, ALateTypeKeepsItsLastValueForThreeHoursAndFlagsIt) {
  const std::string gas = entsoe_series(
      {.end = "2026-01-01T06:00Z"}, {{1, 100}, {2, 100}, {3, 100}, {4, 100}, {5, 100}, {6, 100}});
  const ProviderIntensity answer =
      intensity(entsoe_document(gas + entsoe_series({.type = "B19"}, {{1, 100}})));
  ASSERT_EQ(answer.series.size(), 6u);
  EXPECT_EQ(answer.series.estimated, (std::vector<std::uint8_t>{0, 1, 1, 1, 0, 0}));
  EXPECT_NEAR(answer.series.values[3], 250.5, 1e-9);
  EXPECT_FALSE(answer.series.known(4));
  EXPECT_FALSE(answer.series.known(5));
}

TEST(Entsoe, PumpsAreNoGenerationAndStorageIsLeftOut) {
  const ProviderIntensity answer = intensity(
      entsoe_document(entsoe_series({.type = "B04"}, {{1, 100}, {2, -5}}) +
                      entsoe_series({.type = "B10"}, {{1, 100}}) +
                      entsoe_series({.type = "B10", .generated = false}, {{1, 5000}, {2, 5000}})));
  EXPECT_NEAR(answer.series.values[0], 490, 1e-9);
  ASSERT_EQ(answer.notes.size(), 2u);
  EXPECT_EQ(answer.notes[0], "1 negative values counted as 0");
  EXPECT_EQ(answer.notes[1], "50 % of the generation has no emission factor and is left out: B10");
}

TEST(Entsoe, DaysOfASwitchOfSummerTimeHaveTheirHours) {
  // Local days in Central Europe: 23 h in March, 25 h in October.
  const struct {
    const char *start, *end;
    int hours;
  } days[] = {{"2026-03-28T23:00Z", "2026-03-29T22:00Z", 23},
              {"2026-10-24T22:00Z", "2026-10-25T23:00Z", 25}};
  for (const auto& day : days) {
    std::vector<std::pair<int, double>> values;
    for (int i = 1; i <= day.hours; ++i) values.emplace_back(i, i);
    const auto power =
        parse_entsoe(entsoe_document(entsoe_series({.start = day.start, .end = day.end}, values)),
                     whole_hours(1))
            .value();
    ASSERT_EQ(power.size(), static_cast<std::size_t>(day.hours));
    EXPECT_EQ(power.start, parse_utc(day.start).value());
    EXPECT_EQ(power.megawatts.at("B04").back(), day.hours);
    values.emplace_back(day.hours + 1, 1);
    EXPECT_FALSE(
        parse_entsoe(entsoe_document(entsoe_series({.start = day.start, .end = day.end}, values)),
                     whole_hours(1))
            .ok());
  }
}

TEST(Entsoe, AnAcknowledgementIsNoData) {
  const auto answer = parse_entsoe(
      "<?xml version=\"1.0\"?><Acknowledgement_MarketDocument "
      "xmlns=\"urn:iec62325.351:tc57wg16:451-1:acknowledgementdocument:7:0\"><mRID>x</mRID>"
      "<Reason><code>999</code><text>No matching data found for Data item A75</text></Reason>"
      "</Acknowledgement_MarketDocument>",
      whole_hours(1));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(answer.error().text(), "ENTSO-E reports: 'No matching data found for Data item A75'");
}

TEST(Entsoe, SaysWhatIsWrongWithADocument) {
  const std::string bomb =
      "<!DOCTYPE a [<!ENTITY b \"cccccccccc\"><!ENTITY d \"&b;&b;&b;\">]>"
      "<GL_MarketDocument>&d;</GL_MarketDocument>";
  for (const std::string& xml : std::initializer_list<std::string>{
           "", "no xml", "<GL_MarketDocument>", "<html/>", entsoe_document(""), bomb,
           entsoe_document(entsoe_series({.resolution = "P1Y"}, {{1, 1}})),
           entsoe_document(entsoe_series({.start = "yesterday"}, {{1, 1}})),
           entsoe_document(entsoe_series({.end = "2025-01-01T00:00Z"}, {{1, 1}})),
           entsoe_document(entsoe_series({.end = "2190-01-01T00:00Z"}, {{1, 1}})),
           entsoe_document(entsoe_series({}, {{0, 1}})),
           entsoe_document(entsoe_series({}, {{5, 1}})),
           entsoe_document(entsoe_series({}, {{1, 1e9}})),
           entsoe_document(entsoe_series({}, {}))}) {
    EXPECT_FALSE(parse_entsoe(xml, whole_hours(1)).ok()) << xml;
  }
}

TEST(EmissionFactors, AreReadAndPrinted) {
  EXPECT_NE(emission_factors_text(default_emission_factors()).find("B04 fossil gas 490"),
            std::string::npos);
  EXPECT_NE(emission_factors_text(default_emission_factors()).find("B10 pumped storage left out"),
            std::string::npos);
  EXPECT_TRUE(parse_emission_factors("").ok());
  EXPECT_TRUE(parse_emission_factors("# mine\nB05 = 900\n\nB17=none\n").ok());
  for (const char* text :
       {"B04", "B99=1", "B04=-1", "B04=3001", "B14=0.012", "B04=x", "B04=1,B04=2", "=1"}) {
    EXPECT_FALSE(parse_emission_factors(text).ok()) << text;
  }
}

}  // namespace
}  // namespace harpe::carbon
