#include "harpe/carbon/carbon/intensity_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harpe/base/file.h"
#include "harpe/base/source_tree_testing.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::carbon {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPortal =
    "\xEF\xBB\xBF"
    "Datetime (UTC),Country,Zone Name,Zone Id,Carbon Intensity gCO\xE2\x82\x82"
    "eq/kWh (direct),Carbon Intensity gCO\xE2\x82\x82"
    "eq/kWh (LCA),Low Carbon Percentage,Renewable Percentage,Data Source,Data Estimated,Data "
    "Estimation Method\n";

std::string why(const Result<IntensitySeries>& series) {
  return series.ok() ? "it was read" : series.error().text();
}

TEST(IntensityCsv, ReadsThePortalOfElectricityMaps) {
  const std::string text =
      std::string(kPortal) +
      "2021-01-01 00:00:00,Spain,Spain,ES,103.42,143.06,77.7,51.54,entsoe.eu,false,\n"
      "2021-01-01 01:00:00,Spain,Spain,ES,100.86,139.96,78.42,50.7,entsoe.eu,true,TIME\r\n"
      "2021-01-01 02:00:00,Spain,Spain,ES,,,78.94,50.71,entsoe.eu,false,\n"
      "2021-01-01 04:00:00,Spain,Spain,ES,99,138,78.94,50.71,entsoe.eu,false,\n";
  const auto series = parse_intensity_csv(text, "es.csv");
  ASSERT_TRUE(series.ok()) << series.error().text();
  EXPECT_EQ(series->size(), 5U);
  EXPECT_EQ(series->values[1], 139.96);
  EXPECT_EQ(series->gaps(), 2U);  // an empty cell, and a missing row
  EXPECT_EQ(series->estimates(), 1U);
  EXPECT_EQ(series->kind, IntensityKind::kAverageLifecycle);
  EXPECT_EQ(series->zone, "ES");
  EXPECT_EQ(series->source, "entsoe.eu, by Electricity Maps");
  EXPECT_EQ(utc_text(series->start), "2021-01-01T00:00:00Z");

  const auto direct = parse_intensity_csv(text, "es.csv", {.kind = IntensityKind::kAverageDirect});
  ASSERT_TRUE(direct.ok()) << direct.error().text();
  EXPECT_EQ(direct->values[0], 103.42);
  EXPECT_EQ(direct->kind, IntensityKind::kAverageDirect);
}

TEST(IntensityCsv, ReadsNewerDownloadsByWhatTheirColumnsSay) {
  const auto series = parse_intensity_csv(
      "Zone id,Carbon intensity gCO2eq/kWh (Life cycle),Data estimated,Datetime (UTC)\n"
      "DE,302,False,2026-01-01 00:00:00\nDE,310,True,2026-01-01 01:00:00\n",
      "de.csv");
  ASSERT_TRUE(series.ok()) << series.error().text();
  EXPECT_EQ(series->zone, "DE");
  EXPECT_EQ(series->values[1], 310);
  EXPECT_EQ(series->estimates(), 1U);
}

TEST(IntensityCsv, ReadsChasesFileAndEntsoE) {
  const auto chase = parse_intensity_csv(
      "location,timestamp,duration,value,hist\n"
      "MISO,2022-10-20T06:20:00+00:00,30,646.8,619.2\n"
      "MISO,2022-10-20T06:50:00+00:00,30,639.6,618.7\n",
      "chase.csv");
  ASSERT_TRUE(chase.ok()) << chase.error().text();
  EXPECT_EQ(chase->values[0], 619.2);
  EXPECT_EQ(chase->step, whole_minutes(30));
  EXPECT_EQ(chase->kind, IntensityKind::kUnstated);

  const auto entsoe = parse_intensity_csv(
      "Time,Carbon Intensity\n2020-01-01 00:00:00,50\n2020-01-01 00:15:00,51\n", "fr.csv");
  ASSERT_TRUE(entsoe.ok()) << entsoe.error().text();
  EXPECT_EQ(entsoe->step, whole_minutes(15));
}

TEST(IntensityCsv, AsksWhetherHoursAreUtc) {
  const std::string text =
      "date,hour,day,month,weekday,ci\n2022-01-01,0,1,1,6,50\n2022-01-01,1,1,1,6,51\n";
  EXPECT_THAT(why(parse_intensity_csv(text, "a.csv")), HasSubstr("state that the hours are UTC"));
  const auto series = parse_intensity_csv(text, "a.csv", {.hours_are_utc = true});
  ASSERT_TRUE(series.ok()) << series.error().text();
  EXPECT_EQ(series->size(), 2U);
}

TEST(IntensityCsv, ReadsAnyTableByItsUnitAndKind) {
  const std::string text = "t,average,marginal\n2022-01-01,200,-1200\n2022-01-01T00:05Z,201,1100\n";
  IntensityCsvOptions options{.time_column = "t", .value_column = "marginal"};
  EXPECT_THAT(why(parse_intensity_csv(text, "a.csv", options)),
              HasSubstr("needs its unit and its kind"));
  options.unit = parse_intensity_unit("lb/MWh").value();
  options.kind = IntensityKind::kMarginal;
  options.zone = "CAISO_NORTH";
  const auto series = parse_intensity_csv(text, "a.csv", options);
  ASSERT_TRUE(series.ok()) << series.error().text();
  EXPECT_NEAR(series->values[1], 1100 * 0.45359237, 1e-9);
  EXPECT_LT(series->values[0], 0);  // a marginal intensity may be negative
  EXPECT_EQ(series->step, whole_minutes(5));
  EXPECT_EQ(series->zone, "CAISO_NORTH");  // the file names no zone
  EXPECT_THAT(why(parse_intensity_csv(text, "a.csv")), HasSubstr("the layout is unknown"));
}

TEST(IntensityCsv, TakesTheUnitThatAColumnsNameHas) {
  for (const auto& [name, grams] : {std::pair("kg_per_kwh", 400.0),
                                    {"ci [kgCO2eq/kWh]", 400.0},
                                    {"kg CO2-eq / kWh", 400.0},
                                    {"g_per_kwh", 0.4},
                                    {"carbon intensity tCO2e per MWh", 400.0},
                                    {"lbs_co2_per_mwh", 0.18}}) {
    const std::string text = "t," + std::string(name) + "\n2022-01-01,0.4\n2022-01-01T01:00Z,0.4\n";
    const auto series = parse_intensity_csv(
        text, "a.csv",
        {.time_column = "t", .value_column = name, .kind = IntensityKind::kAverageDirect});
    ASSERT_TRUE(series.ok()) << name << ": " << series.error().text();
    EXPECT_NEAR(series->values[1], grams, 0.01) << name;
  }
  const std::string portal =
      "Zone id,Carbon intensity kgCO2eq/kWh (Life cycle),Datetime (UTC)\n"
      "DE,0.302,2026-01-01 00:00:00\nDE,0.31,2026-01-01 01:00:00\n";
  EXPECT_EQ(parse_intensity_csv(portal, "de.csv").value().values[1], 310);
  const auto refused = parse_intensity_csv(
      "t,kg/kWh\n2022-01-01,0.4\n2022-01-01T01:00Z,0.4\n", "a.csv",
      {.time_column = "t", .value_column = "kg/kWh", .unit = 1, .kind = IntensityKind::kMarginal});
  EXPECT_THAT(why(refused), HasSubstr("a.csv:1:3: the name of the column, 'kg/kWh', contains "
                                      "another unit than the given one"));
  // A name that only resembles a unit.
  const auto other = parse_intensity_csv(
      "t,backlog/kwh\n2022-01-01,50\n2022-01-01T01:00Z,50\n", "a.csv",
      {.time_column = "t", .value_column = "backlog/kwh", .kind = IntensityKind::kMarginal});
  EXPECT_THAT(why(other), HasSubstr("needs its unit and its kind"));
}

TEST(IntensityCsv, NamesValuesThatLookLikeKilograms) {
  const std::string rows = "\n2020-01-01T00:00Z,0.35\n2020-01-01T01:00Z,1.1\n2020-01-01T02:00Z,\n";
  const std::string text = "Time,Carbon Intensity" + rows;
  EXPECT_THAT(
      why(parse_intensity_csv(text, "fr.csv")),
      HasSubstr("fr.csv:1:6: no value is above 1.1 g/kWh: they look like kg/kWh. Give their "
                "unit: kg/kWh or g/kWh"));
  EXPECT_EQ(parse_intensity_csv(text, "fr.csv", {.unit = 1000}).value().values[1], 1100);
  EXPECT_EQ(parse_intensity_csv(text, "fr.csv", {.unit = 1}).value().values[1], 1.1);
  EXPECT_EQ(parse_intensity_csv(text, "fr.csv", {.any_value = true}).value().values[1], 1.1);
  // No grid has such a low life-cycle intensity, whatever unit is declared.
  const IntensityCsvOptions life_cycle{.unit = 1, .kind = IntensityKind::kAverageLifecycle};
  EXPECT_THAT(why(parse_intensity_csv(text, "fr.csv", life_cycle)),
              HasSubstr("Give their unit: kg/kWh"));
  EXPECT_TRUE(parse_intensity_csv("Time,Carbon Intensity\n2020-01-01,0\n2020-01-02,0\n", "a").ok());
  EXPECT_TRUE(
      parse_intensity_csv("Time,Carbon Intensity\n2020-01-01,0.1\n2020-01-02,9\n", "a").ok());
}

TEST(IntensityCsv, NamesBothLinesOfOneTime) {
  EXPECT_THAT(why(parse_intensity_csv("Time,Carbon Intensity\n2020-01-01T00:00Z,50\n"
                                      "2020-01-01T01:00Z,60\n2020-01-01T02:00Z,70\n"
                                      "2020-01-01T00:00Z,55\n",
                                      "fr.csv")),
              HasSubstr("fr.csv:5:1: the same time as in line 2"));
}

TEST(IntensityCsv, KnowsTheUnitsThatProvidersUse) {
  EXPECT_EQ(parse_intensity_unit("gCO2eq/kWh").value(), 1);
  EXPECT_EQ(parse_intensity_unit("kg/MWh").value(), 1);
  EXPECT_EQ(parse_intensity_unit("t/GWh").value(), 1);
  EXPECT_NEAR(parse_intensity_unit("lbs_co2_per_mwh").value(), 0.45359237, 1e-12);
  EXPECT_EQ(parse_intensity_unit("t/MWh").value(), 1000);
  EXPECT_EQ(parse_intensity_unit("g/MJ").value(), 3.6);
  EXPECT_FALSE(parse_intensity_unit("percent").ok());
  EXPECT_FALSE(parse_intensity_unit("").ok());
}

TEST(IntensityCsv, NamesEveryRowThatIsWrong) {
  const auto read = [](const std::string& rows) {
    return why(parse_intensity_csv("Time,Carbon Intensity\n" + rows, "fr.csv"));
  };
  EXPECT_THAT(read("2020-01-01,50\n2020-01-01T01:00Z,-1\n2020-01-01T02:00Z,3001\n2020-01-01T03,1\n"
                   "2020-01-01T04:00Z,many\n2020-01-01T05:00Z\n"),
              ::testing::AllOf(HasSubstr("fr.csv:3:19: an intensity of -1 g/kWh is out of range"),
                               HasSubstr("fr.csv:4:19: an intensity of 3001 g/kWh is out of range"),
                               HasSubstr("fr.csv:5:1: expected a time"),
                               HasSubstr("fr.csv:6:19: expected a number"),
                               HasSubstr("fr.csv:7: expected 2 cells, found 1")));
  // The end of summer time, in local time.
  EXPECT_THAT(read("2020-10-25 01:00,50\n2020-10-25 02:00,50\n2020-10-25 02:00,50\n"),
              HasSubstr("fr.csv:4:1: the same time as in line 3; local time repeats an hour"));
  EXPECT_THAT(read("2020-01-01T01:00Z,50\n2020-01-01T00:00Z,50\n"), HasSubstr("after that"));
  EXPECT_THAT(read("2020-01-01T00:00Z,50\n2020-01-01T01:00Z,50\n2020-01-01T02:00Z,50\n"
                   "2020-01-01T02:15Z,50\n"),
              HasSubstr("fr.csv:5:1: 2020-01-01T02:15:00Z is not a multiple of 60 min"));
  EXPECT_THAT(read("2020-01-01,50\n"), HasSubstr("one row is not enough"));
  EXPECT_THAT(read("2020-01-01T00:00Z,50\n2020-01-01T00:07Z,50\n"), HasSubstr("divide a day"));
  EXPECT_THAT(read("1970-01-01T00:00Z,5\n1970-01-01T00:00:01Z,5\n2199-01-01T00:00:00Z,5\n"),
              HasSubstr("the time is too far"));
  EXPECT_THAT(read("2020-01-01T00:00Z,\n2020-01-01T01:00Z,\n"), HasSubstr("no value"));
  EXPECT_THAT(read(""), HasSubstr("no row with a time"));
  EXPECT_THAT(why(parse_intensity_csv("", "fr.csv")), HasSubstr("no line"));
}

TEST(IntensityCsv, TakesTimesWithOffsetsAcrossTheEndOfSummerTime) {
  const auto series = parse_intensity_csv(
      "Time,Carbon Intensity\n2020-10-25T02:00+02:00,50\n2020-10-25T02:00+01:00,51\n"
      "2020-10-25T03:00+01:00,52\n",
      "de.csv");
  ASSERT_TRUE(series.ok()) << series.error().text();
  EXPECT_EQ(series->size(), 3U);
  EXPECT_EQ(series->gaps(), 0U);
}

TEST(IntensityCsv, ReadsOneZoneOfSeveral) {
  const std::string text =
      "location,timestamp,duration,value,hist\n"
      "A,2022-10-20T06:00Z,30,1,10\nB,2022-10-20T06:00Z,30,1,20\n"
      "A,2022-10-20T07:00Z,30,1,11\nB,2022-10-20T07:00Z,30,1,21\n";
  EXPECT_THAT(why(parse_intensity_csv(text, "a.csv")), HasSubstr("a second zone, 'B'"));
  const auto series = parse_intensity_csv(text, "a.csv", {.zone = "B"});
  ASSERT_TRUE(series.ok()) << series.error().text();
  EXPECT_EQ(series->values[1], 21);
  EXPECT_EQ(series->zone, "B");
  EXPECT_THAT(why(parse_intensity_csv(text, "a.csv", {.zone = "C"})), HasSubstr("no row for"));
}

TEST(IntensityCsv, ReadsTheFilesThatAreThere) {
  const auto folder = measured_data() / "carbon";
  if (!exists(folder)) GTEST_SKIP() << "the carbon intensities are not there (HARPE_SHARED)";
  // Known means of the files, to three digits.
  for (const auto& [name, size, mean] : {std::tuple("US-CAL-CISO_2022_hourly.csv", 8760U, 261.0),
                                         {"ES_2021_hourly.csv", 8760U, 174.0},
                                         {"NO_2022_hourly.csv", 8760U, 38.0},
                                         {"miso_2022-10_half-hourly.csv", 167U, 622.0}}) {
    const auto text = read_file(folder / name);
    ASSERT_TRUE(text.ok());
    const auto series = parse_intensity_csv(*text, name);
    ASSERT_TRUE(series.ok()) << series.error().text();
    EXPECT_EQ(series->size(), size) << name;
    double sum = 0;
    for (const double value : series->values) sum += value;
    EXPECT_NEAR(sum / static_cast<double>(size), mean, 0.6) << name;
  }
}

TEST(PriceUnit, IsMoneyForEnergy) {
  EXPECT_EQ(parse_price_unit("EUR/MWh")->money, "EUR");
  EXPECT_EQ(parse_price_unit("EUR/MWh")->per_mwh, 1);
  EXPECT_EQ(parse_price_unit("ct/kWh")->per_mwh, 1000);
  EXPECT_FALSE(parse_price_unit("kg/MWh"));
  EXPECT_FALSE(parse_price_unit("g/kWh"));
  EXPECT_FALSE(parse_price_unit("EUR"));
}

}  // namespace
}  // namespace harpe::carbon
