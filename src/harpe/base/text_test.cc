#include "harpe/base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace harpe {
namespace {

TEST(Trim, TakesWhiteSpaceFromBothEndsOnly) {
  EXPECT_EQ(trim(" \ta b\r\n"), "a b");
  EXPECT_EQ(trim(" \t "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(WithoutByteOrderMark, TakesAwayOne) {
  EXPECT_EQ(without_byte_order_mark("\xef\xbb\xbf\xef\xbb\xbf"), "\xef\xbb\xbf");
  EXPECT_EQ(without_byte_order_mark("\xef\xbb"), "\xef\xbb");
}

TEST(IsControl, HoldsForAsciiBelowSpaceAndDel) {
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(is_control(static_cast<char>(byte)), byte < ' ' || byte == 0x7f) << byte;
  }
}

TEST(ParseNumber, TakesDecimalNumbers) {
  EXPECT_EQ(parse_number(" 0.5 "), 0.5);
  EXPECT_EQ(parse_number("-1.25e3"), -1250.0);
  EXPECT_EQ(parse_number(".5"), 0.5);
  EXPECT_EQ(parse_number("7"), 7.0);
}

TEST(ParseNumber, RefusesAllElse) {
  for (const char* text : {"", " ", "nan", "NaN", "inf", "-inf", "infinity", "1e400", "0x10", "1,5",
                           "1.5 s", "1 2", "--1", "+1", "e5", "1e", "."}) {
    EXPECT_EQ(parse_number(text), std::nullopt) << text;
  }
}

TEST(ParseInteger, TakesWhatFits) {
  EXPECT_EQ(parse_integer("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parse_integer(" -12 "), -12);
  for (const char* text : {"9223372036854775808", "1.0", "1e3", "", "12a", "+3", "0x1"}) {
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
  }
}

TEST(Shortest, ReadsBackAsTheSameNumber) {
  EXPECT_EQ(shortest(0.1), "0.1");
  EXPECT_EQ(shortest(83.64), "83.64");
  EXPECT_EQ(shortest(1410), "1410");
  EXPECT_EQ(shortest(1.2346, 3), "1.235");
  EXPECT_EQ(shortest(1.2, 3), "1.2");
  EXPECT_EQ(shortest(1410.4, 0), "1410");
  EXPECT_EQ(shortest(-0.26, 1), "-0.3");
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 10000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (std::isfinite(value)) {
      EXPECT_EQ(parse_number(shortest(value)), value);
    }
  }
}

TEST(Grouped, PutsASpaceBetweenThousands) {
  EXPECT_EQ(grouped(4321574.149, 1), "4 321 574.1");
  EXPECT_EQ(grouped(999, 0), "999");
  EXPECT_EQ(grouped(1000, 0), "1 000");
  EXPECT_EQ(grouped(-1234.5, 2), "-1 234.50");
  EXPECT_EQ(grouped(999.96, 1), "1 000.0");
  EXPECT_EQ(grouped(-0.04, 1), "0.0");
  EXPECT_EQ(grouped(std::numeric_limits<double>::max(), 3).size(), 309U + 102U + 4U);
}

TEST(Lower, ChangesAsciiLettersOnly) {
  EXPECT_EQ(lower("ZB-V 1F1B \xc3\x84"), "zb-v 1f1b \xc3\x84");
}

TEST(InQuotes, ShowsWhatCannotBePrinted) {
  EXPECT_EQ(in_quotes("abc"), "'abc'");
  EXPECT_EQ(in_quotes(std::string("a\0\x1b\xff", 4)), "'a\\x00\\x1b\\xff'");
  EXPECT_EQ(in_quotes("abcdef", 3), "'abc...'");
  EXPECT_EQ(in_quotes("abc", 3), "'abc'");
}

TEST(UnbrokenWords, KeepNumbersTogetherWithTheirUnits) {
  using testing::ElementsAre;
  EXPECT_THAT(unbroken_words(" a\tb\n c "), ElementsAre("a", "b", "c"));
  EXPECT_THAT(unbroken_words(""), ElementsAre());
  EXPECT_THAT(unbroken_words("saves 395 448.6 kWh (5.5 %), in 16 s."),
              ElementsAre("saves", "395 448.6 kWh", "(5.5 %),", "in", "16 s."));
  EXPECT_THAT(unbroken_words("in 2026 100 MHz"), ElementsAre("in", "2026", "100 MHz"));
  EXPECT_THAT(unbroken_words("8 stages, 16 pipelines s"),
              ElementsAre("8", "stages,", "16", "pipelines", "s"));
}

TEST(Nearest, FindsALikelyTypo) {
  const std::vector<std::string> names = {"forward", "backward", "weight"};
  EXPECT_EQ(nearest("foward", names), "forward");
  EXPECT_EQ(nearest("Backwrad", names), "backward");
  EXPECT_EQ(nearest("weigth", names), "weight");
  EXPECT_EQ(nearest("optimizer", names), std::nullopt);
  EXPECT_EQ(nearest("", names), std::nullopt);
  EXPECT_EQ(nearest("forward", {}), std::nullopt);
  EXPECT_EQ(nearest(std::string(100000, 'f'), names), std::nullopt);
}

}  // namespace
}  // namespace harpe
