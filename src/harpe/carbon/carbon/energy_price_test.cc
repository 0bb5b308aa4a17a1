#include "harpe/carbon/carbon/energy_price.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harpe::carbon {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(EnergyPrice, IsReadAsUsersWriteIt) {
  struct Case {
    const char* text;
    double per_kwh;
    const char* currency;
  };
  for (const Case& one : {Case{"0.10/kWh", 0.10, ""},
                          {"0.10", 0.10, ""},
                          {"1e-1", 0.10, ""},
                          {" 0.10 EUR/kWh ", 0.10, "EUR"},
                          {"0.10EUR / kwh", 0.10, "EUR"},
                          {"eur 0.10/kWh", 0.10, "EUR"},
                          {"$0.085/kWh", 0.085, "USD"},
                          {"0.10 €/kWh", 0.10, "EUR"},
                          {"£.2/kWh", 0.2, "GBP"},
                          {"95 EUR/MWh", 0.095, "EUR"},
                          {"12 ct/kWh", 0.12, ""},
                          {"12 cents/kWh", 0.12, ""},
                          {"24p/kWh", 0.24, "GBP"},
                          {"0 EUR/kWh", 0, "EUR"}}) {
    const auto price = parse_energy_price(one.text);
    ASSERT_TRUE(price.ok()) << one.text << ": " << price.error().text();
    EXPECT_DOUBLE_EQ(price->per_kwh, one.per_kwh) << one.text;
    EXPECT_EQ(price->currency, one.currency) << one.text;
  }
}

TEST(EnergyPrice, WhatIsNoPriceIsRefusedWithTheReason) {
  for (const char* text : {"", "EUR", "0,10 EUR/kWh", "0.10 EUR/kW", "0.10/", "EUR 0.10 EUR/kWh",
                           "0.1.0/kWh", "nan/kWh", "1 2 EUR/kWh", "1e300"}) {
    const auto price = parse_energy_price(text);
    ASSERT_FALSE(price.ok()) << text;
    EXPECT_THAT(price.error().text(), HasSubstr("expected a price")) << text;
  }
  EXPECT_THAT(parse_energy_price("0,10 EUR/kWh").error().text(),
              HasSubstr("; use a point: 0.10 EUR/kWh"));
  EXPECT_THAT(parse_energy_price("EUR 0,10/kWh").error().text(),
              HasSubstr("; use a point: EUR 0.10/kWh"));
  EXPECT_THAT(parse_energy_price("0,10").error().text(), HasSubstr("; use a point: 0.10"));
  EXPECT_THAT(parse_energy_price("1,000,5 EUR/MWh").error().text(), Not(HasSubstr("point")));
  EXPECT_THAT(parse_energy_price("20%").error().text(),
              AllOf(HasSubstr("such as 0.10/kWh"), HasSubstr("a percentage is not accepted")));
  // A number without a unit may be in ct/kWh or per MWh.
  for (const char* text : {"100", "95 EUR", "$12"}) {
    EXPECT_THAT(parse_energy_price(text).error().text(),
                AllOf(HasSubstr("has no unit"), HasSubstr("/kWh"), HasSubstr("/MWh")))
        << text;
  }
  EXPECT_EQ(parse_energy_price("100/kWh")->per_kwh, 100);
  EXPECT_EQ(parse_energy_price("12 ct")->per_kwh, 0.12);
  EXPECT_THAT(parse_energy_price("-0.10/kWh").error().text(), HasSubstr("is negative"));
  EXPECT_THAT(parse_energy_price("0.10 EURO/kWh").error().text(),
              HasSubstr("unknown currency 'EURO'; did you mean EUR?"));
  EXPECT_THAT(parse_energy_price("0.10 XXQ/kWh").error().text(),
              HasSubstr("unknown currency 'XXQ'"));
}

TEST(EnergyPrice, MoneyHasItsCurrencyIfThatIsStated) {
  EXPECT_EQ(money_text(44085.6, "EUR"), "44 086 EUR");
  EXPECT_EQ(money_text(999.5, "USD"), "999.50 USD");
  EXPECT_EQ(money_text(12, ""), "12.00");
  EXPECT_EQ(money_text(-12345, ""), "-12 345");
}

}  // namespace
}  // namespace harpe::carbon
