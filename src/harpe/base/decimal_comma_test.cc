#include "harpe/base/decimal_comma.h"

#include <gtest/gtest.h>

namespace harpe {
namespace {

TEST(DecimalComma, IsShownAsAPoint) {
  EXPECT_EQ(decimal_comma_hint("0,10"), "; use a point: 0.10");
  EXPECT_EQ(decimal_comma_hint(" EUR 95,5/MWh"), "; use a point: EUR 95.5/MWh");
}

TEST(DecimalComma, OtherTextsHaveNone) {
  for (const char* text : {"", "0.10", ",5", "5,", "1,000,5", "1,000.5", "1.000,5", "a,b", "1, 2"})
    EXPECT_EQ(decimal_comma_hint(text), "") << text;
  EXPECT_EQ(decimal_comma_hint("0,1" + std::string(100, '0')), "");
}

}  // namespace
}  // namespace harpe
