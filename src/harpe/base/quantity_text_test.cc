#include "harpe/base/quantity_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harpe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(QuantityText, TimesTakeSecondsOrASuffix) {
  EXPECT_DOUBLE_EQ(parse_seconds("1.5")->value, 1.5);
  EXPECT_DOUBLE_EQ(parse_seconds("1.5s")->value, 1.5);
  EXPECT_DOUBLE_EQ(parse_seconds(" 250 ms ")->value, 0.25);
  EXPECT_DOUBLE_EQ(parse_seconds("80us")->value, 80e-6);
  EXPECT_DOUBLE_EQ(parse_seconds("5ns")->value, 5e-9);
  EXPECT_DOUBLE_EQ(parse_seconds("2min")->value, 120);
  EXPECT_DOUBLE_EQ(parse_seconds("0")->value, 0);
}

TEST(QuantityText, PowersAndPercentagesTakeTheirUnits) {
  EXPECT_DOUBLE_EQ(parse_watts("83.64")->value, 83.64);
  EXPECT_DOUBLE_EQ(parse_watts("83.64W")->value, 83.64);
  EXPECT_DOUBLE_EQ(parse_watts("2.4kW")->value, 2400);
  EXPECT_DOUBLE_EQ(parse_watts("1.5MW")->value, 1.5e6);
  EXPECT_DOUBLE_EQ(parse_watts("500mW")->value, 0.5);
  EXPECT_DOUBLE_EQ(*parse_percent("5"), 5);
  EXPECT_DOUBLE_EQ(*parse_percent("2.5%"), 2.5);
  EXPECT_DOUBLE_EQ(*parse_percent("0.05"), 0.05);
  EXPECT_DOUBLE_EQ(*parse_percent("0.05%"), 0.05);
  EXPECT_DOUBLE_EQ(*parse_percent("1"), 1);
  EXPECT_TRUE(may_be_fraction("0.05"));
  for (const char* text : {"0", "0.05%", "1", "x"}) EXPECT_FALSE(may_be_fraction(text)) << text;
  EXPECT_DOUBLE_EQ(*parse_percent("0"), 0);
}

TEST(QuantityText, WhatIsNoQuantityIsRefusedWithWhatWasExpected) {
  for (const char* text :
       {"", "s", "1.5x", "1,5", "nan", "inf", "1e999", "1e308min", "five", "5 W"}) {
    const auto time = parse_seconds(text);
    ASSERT_FALSE(time.ok()) << text;
    EXPECT_THAT(time.error().text(), HasSubstr("expected a time")) << text;
  }
  EXPECT_THAT(parse_seconds("-1").error().text(), HasSubstr("negative"));
  EXPECT_FALSE(parse_watts("3s").ok());
  EXPECT_FALSE(parse_percent("-1%").ok());
}

TEST(QuantityText, DecimalCommasAndPercentagesAreAnsweredWithWhatToWrite) {
  EXPECT_EQ(parse_watts("2,4kW").error().text(),
            "expected a power in watts such as 300 or 2.4kW, found '2,4kW'; use a point: 2.4kW");
  EXPECT_EQ(
      parse_watts("20%").error().text(),
      "expected a power in watts such as 300 or 2.4kW, found '20%'; a percentage is not accepted");
  EXPECT_EQ(parse_percent("0,5%").error().text(),
            "expected a percentage such as 5%, found '0,5%'; use a point: 0.5%");
  EXPECT_EQ(parse_time_or_factor("1,2x").error().text(),
            "expected a factor such as 1.2x, found '1,2x'; use a point: 1.2x");
  EXPECT_EQ(parse_share("0,5").error().text(),
            "expected a number from 0 to 1, found '0,5'; use a point: 0.5");
}

TEST(QuantityText, CountsStayInTheirRange) {
  EXPECT_EQ(*parse_count("8", 1, 10), 8);
  EXPECT_EQ(*parse_share("0"), 0);
  EXPECT_EQ(*parse_share("1"), 1);
  for (const char* wrong : {"-0.1", "1.01", "nan", "half", ""}) {
    EXPECT_FALSE(parse_share(wrong).ok()) << wrong;
  }
  for (const char* text : {"0", "11", "2.5", "", "eight", "99999999999999999999"}) {
    const auto count = parse_count(text, 1, 10);
    ASSERT_FALSE(count.ok()) << text;
    EXPECT_THAT(count.error().text(), HasSubstr("from 1 to 10"));
  }
}

TEST(QuantityText, AFactorEndsInX) {
  EXPECT_DOUBLE_EQ(*parse_time_or_factor("1.2x")->factor, 1.2);
  EXPECT_FALSE(parse_time_or_factor("1.2x")->time.has_value());
  EXPECT_DOUBLE_EQ(parse_time_or_factor("16.5s")->time->value, 16.5);
  EXPECT_FALSE(parse_time_or_factor("x").ok());
  EXPECT_FALSE(parse_time_or_factor("-2x").ok());
  EXPECT_THAT(parse_time_or_factor("20%").error().text(),
              HasSubstr("write 1.2x for 20 % slower, or the seconds"));
  EXPECT_THAT(parse_time_or_factor("7.5 %").error().text(), HasSubstr("write 1.075x"));
  EXPECT_THAT(parse_time_or_factor("x%").error().text(), Not(HasSubstr("write")));
}

}  // namespace
}  // namespace harpe
