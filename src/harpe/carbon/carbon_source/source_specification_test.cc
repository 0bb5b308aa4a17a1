#include "harpe/carbon/carbon_source/source_specification.h"

#include <gtest/gtest.h>

#include <string>

namespace harpe::carbon {
namespace {

using SpecifiedProvider = SourceSpecification::Provider;

std::string error_of(const std::string& text) {
  const auto source = parse_source(text);
  return source.ok() ? "" : source.error().text();
}

bool says(const std::string& text, const std::string& part) {
  const std::string error = error_of(text);
  return error.find(part) != std::string::npos || (ADD_FAILURE() << text << ": " << error, false);
}

TEST(SourceSpecification, ReadsEachSource) {
  EXPECT_EQ(parse_source("302.5").value().constant.grams_per_kwh, 302.5);
  EXPECT_EQ(parse_source("de").value().constant.zone, "DE");
  const auto maps = parse_source(
                        "electricity-maps:DE?kind=direct&version=v4&step=15"
                        "&estimations=no&mean=381&url=https://proxy.example/em/")
                        .value();
  EXPECT_EQ(maps.provider, SpecifiedProvider::kElectricityMaps);
  EXPECT_EQ(maps.zone, "DE");
  EXPECT_EQ(maps.kind, IntensityKind::kAverageDirect);
  EXPECT_EQ(maps.version, "v4");
  EXPECT_EQ(maps.step, whole_minutes(15));
  EXPECT_FALSE(maps.estimations);
  EXPECT_EQ(maps.yearly_mean, 381);
  EXPECT_EQ(maps.url, "https://proxy.example/em");
  const auto watttime = parse_source("watttime:CAISO_NORTH?signal=co2_aoer").value();
  EXPECT_EQ(watttime.provider, SpecifiedProvider::kWattTime);
  EXPECT_EQ(watttime.signal, "co2_aoer");
  EXPECT_EQ(parse_source("uk").value().zone, "");
  EXPECT_EQ(parse_source("uk:13?mean=GB").value().yearly_mean, 238);
  EXPECT_EQ(parse_source("uk?exogenous=wind.csv&known-ahead=24h").value().exogenous, "wind.csv");
  EXPECT_EQ(parse_source("uk?exogenous=w&known-ahead=36").value().known_ahead, whole_hours(36));
  const auto entsoe = parse_source("entsoe:10Y1001A1001A82H?factors=B04:370,B17:none").value();
  EXPECT_EQ(entsoe.zone, "10Y1001A1001A82H");
  EXPECT_EQ(entsoe.factors[3].grams_per_kwh, 370);
  const auto file =
      parse_source("file:/data/a b.csv?time=t&value=ci&unit=lb/MWh&kind=marginal&zone=X").value();
  EXPECT_EQ(file.path, "/data/a b.csv");
  EXPECT_EQ(file.csv.time_column, "t");
  EXPECT_EQ(file.csv.value_column, "ci");
  EXPECT_NEAR(file.csv.unit.value(), 0.45359237, 1e-12);
  EXPECT_EQ(file.csv.kind, IntensityKind::kMarginal);
}

TEST(SourceSpecification, SaysWhatThereIsAndWhatMayHaveBeenMeant) {
  EXPECT_TRUE(says("electricitymaps:DE", "did you mean electricity-maps?"));
  EXPECT_TRUE(says("wattime:CAISO_NORTH", "did you mean watttime?"));
  EXPECT_TRUE(says("nowhere-at-all", "entsoe:10Y1001A1001A82H"));
  EXPECT_TRUE(says("", "a source is"));
  EXPECT_TRUE(says("381g", "unknown source '381g': a source is"));
  EXPECT_TRUE(says("wattime:X", "did you mean watttime? Otherwise, a source is"));
  EXPECT_TRUE(says("uk:18", "1 to 17"));
  EXPECT_TRUE(says("uk:London", "1 to 17"));
  EXPECT_TRUE(says("electricity-maps", "needs a zone, as in electricity-maps:DE"));
  EXPECT_TRUE(says("electricity-maps:../../etc", "needs a zone"));
  EXPECT_TRUE(says("file:", "path"));
  EXPECT_TRUE(says("uk?knid=direct", "no option"));
  EXPECT_TRUE(says("electricity-maps:DE?knd=direct", "did you mean kind=?"));
  EXPECT_TRUE(says("electricity-maps:DE?kind=marginal", "life-cycle, direct"));
  EXPECT_TRUE(says("electricity-maps:DE?kind=direct&kind=direct", "twice"));
  EXPECT_TRUE(says("electricity-maps:DE?url=ftp://x", "https://HOST"));
  EXPECT_TRUE(says("electricity-maps:DE?url=https://u:p@x", "https://HOST"));
  EXPECT_TRUE(says("uk?mean=4000", "0 to 3000"));
  EXPECT_TRUE(says("uk?exogenous=w&known-ahead=5d", "0h to 96h"));
  EXPECT_TRUE(says("5000", "0 to 3000"));
}

TEST(SourceSpecification, HasNoPlaceForATokenAndRepeatsNone) {
  const std::string error = error_of("electricity-maps:DE?token=s3cret");
  EXPECT_NE(error.find("environment"), std::string::npos) << error;
  EXPECT_EQ(error.find("s3cret"), std::string::npos) << error;
}

TEST(SourceSpecification, TheLastCharacterOfAnEicChecksTheOthers) {
  // From ENTSO-E's list: Germany-Luxembourg, France, Spain, Belgium, Switzerland, Norway 1.
  for (const char* code : {"10Y1001A1001A82H", "10YFR-RTE------C", "10YES-REE------0",
                           "10YBE----------2", "10YCH-SWISSGRIDZ", "10YNO-1--------2"}) {
    EXPECT_EQ(error_of(std::string("entsoe:") + code), "") << code;
  }
  EXPECT_TRUE(says("entsoe:10Y1001A1001A82G", "not a valid EIC"));
  EXPECT_TRUE(says("entsoe:10Y1001A1001A28H", "not a valid EIC"));
  EXPECT_TRUE(says("entsoe:DE", "not a valid EIC"));
}

}  // namespace
}  // namespace harpe::carbon
