#include "harpe/report/markup.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "harpe/report/curve.h"
#include "harpe/report/test_markup.h"
#include "harpe/report/test_plans.h"

namespace harpe::report {
namespace {

TEST(Escape, LeavesNothingThatMarkupReads) {
  EXPECT_EQ(escape("<a href=\"x\" b='y'>&</a>"),
            "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;&lt;/a&gt;");
}

TEST(Escape, KeepsUtf8AndReplacesWhatIsNot) {
  EXPECT_EQ(escape("µs 你好 𝔸"), "µs 你好 𝔸");
  EXPECT_EQ(escape(std::string_view("a\0b\x1b\x7f", 5)), "a\uFFFDb\uFFFD\uFFFD");
  EXPECT_EQ(escape("\xFF\xC0\x80\xED\xA0\x80\xF5"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(escape("\xE4\xBD"), "\uFFFD\uFFFD") << "cut off in the middle";
}

TEST(Escape, MakesAnyBytesWellFormed) {
  constexpr unsigned kSeed = 20240611;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 30, '\0');
    for (char& c : bytes) {
      c = random() % 2 == 0 ? "<>&\"'/"[random() % 6] : static_cast<char>(random() % 256);
    }
    const std::string clean = clean_text(bytes);
    EXPECT_EQ(clean_text(clean), clean);
    const std::string xml = concat({"<a b=\"", escape(bytes), "\">", escape(bytes), "</a>"});
    EXPECT_EQ(xml_error(xml), "") << xml;
  }
}

TEST(EmbeddableJson, CannotEndTheScriptItStandsIn) {
  EXPECT_EQ(embeddable_json(R"({"a":"</script><!--"})"), R"({"a":"\u003c/script>\u003c!--"})");
}

TEST(Fixed, NeverWritesAMinusBeforeZero) {
  EXPECT_EQ(fixed(-0.0001, 2), "0.00");
  EXPECT_EQ(fixed(-0.006, 2), "-0.01");
  EXPECT_EQ(fixed(std::numeric_limits<double>::max(), 1).size(), 311U);
  EXPECT_EQ(fixed(NAN, 1), "n/a");
}

TEST(Coordinate, HasNoTrailingZeros) {
  EXPECT_EQ(coordinate(12.0), "12");
  EXPECT_EQ(coordinate(12.5), "12.5");
  EXPECT_EQ(coordinate(0.004), "0");
  EXPECT_EQ(coordinate(100), "100");
}

TEST(Ticks, AreRoundAndInside) {
  constexpr unsigned kSeed = 7;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> exponent(-9, 9), mantissa(-1, 1);
  for (int round = 0; round < 1000; ++round) {
    const double low = mantissa(random) * std::pow(10, exponent(random));
    const double range = std::pow(10, exponent(random));
    if (range < 1e-6 * std::abs(low)) continue;
    const int count = 2 + round % 5;
    const Ticks marks = ticks(low, low + range, count);
    EXPECT_GE(marks.values.size(), 2U) << count << " from " << low << " to " << low + range;
    EXPECT_LE(marks.values.size(), 13U);
    for (const double mark : marks.values) {
      EXPECT_GE(mark, low - 1e-6 * range);
      EXPECT_LE(mark, low + range + 1e-6 * range);
    }
  }
  EXPECT_EQ(ticks(0, 10, 5).values, (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(ticks(0, 0.25, 5).decimals, 2);
}

TEST(Fill, DoesNotReadValuesAgain) {
  EXPECT_EQ(fill("{{a}} {{b}} {{c}} {{", {{"a", "{{b}}"}, {"b", "2"}}), "{{b}} 2 {{c}} {{");
}

class Headline : public testing::Test {
 protected:
  static std::string of(double time, double energy) {
    Plan all_max;
    all_max.stages = 1;
    all_max.iteration_time = {10};
    all_max.iteration_energy = {1000};
    return headline(all_max, {{time}, {energy}, {1}, {}});
  }
};

TEST_F(Headline, SaysWhatAPlanSaves) {
  EXPECT_EQ(of(10, 869.4), "Same computation, no slowdown: 13.1\u00A0% less energy.");
  EXPECT_EQ(of(10.5, 750), "Same computation, 5.0\u00A0% slower: 25.0\u00A0% less energy.");
}

TEST_F(Headline, NeverRoundsASlowdownAway) {
  EXPECT_EQ(of(10.0001, 900),
            "Same computation, less than 0.1\u00A0% slower: 10.0\u00A0% less energy.");
  EXPECT_EQ(of(10.006, 900), "Same computation, 0.1\u00A0% slower: 10.0\u00A0% less energy.");
}

TEST_F(Headline, SaysWhenAPlanIsFasterOrNeedsMore) {
  EXPECT_EQ(of(9.9, 1012), "Same computation, 1.0\u00A0% faster: 1.2\u00A0% more energy.");
  EXPECT_EQ(of(9.9999, 1000.1), "Same computation, no slowdown: the same energy.");
}

TEST_F(Headline, CallsNoPlanFasterForTheNoiseOfAProfile) {
  EXPECT_EQ(of(9.98, 933), "Same computation, no slowdown: 6.7\u00A0% less energy.");
}

TEST(Explanation, ClaimsNoBoundThatThePlanContradicts) {
  Plan all_max;
  all_max.iteration_time = {10};
  all_max.iteration_energy = {1000};
  EXPECT_NE(explanation(all_max, {{10}, {900}, {899}, {}}).find("0.111\u00A0%"), std::string::npos)
      << "0.1112 %";
  EXPECT_EQ(explanation(all_max, {{10}, {900}, {910}, {}}).find("best possible"),
            std::string::npos);
}

}  // namespace
}  // namespace harpe::report
