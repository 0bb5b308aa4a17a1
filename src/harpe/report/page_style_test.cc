// The style sheet of all pages: the contrast of texts and backgrounds, light, dark and on paper.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/report/frame.h"
#include "harpe/report/page_files.h"
#include "harpe/report/svg.h"
#include "harpe/report/test_markup.h"

namespace harpe::report {
namespace {

using testing::HasSubstr;
using testing::Not;

using Palette = std::map<std::string, std::string>;

constexpr std::string_view kEndOfPalette = "/* End of the palette. */";

std::string style() {
  return std::string(kPageCss);
}

std::string palette_text() {
  return style().substr(0, style().find(kEndOfPalette));
}

/// Returns the light palette, then the dark palette.
std::vector<Palette> palettes() {
  const std::string text = palette_text();
  std::vector<Palette> all;
  const std::regex colour("--([a-z0-9]+): (#[0-9a-f]{6});");
  for (std::size_t at = text.find(":root {"); at != std::string::npos;
       at = text.find(":root {", at + 1)) {
    const std::string block = text.substr(at, text.find('}', at) - at);
    Palette& palette = all.emplace_back();
    for (auto one = std::sregex_iterator(block.begin(), block.end(), colour);
         one != std::sregex_iterator(); ++one) {
      palette[(*one)[1]] = (*one)[2];
    }
  }
  return all;
}

/// Returns the relative luminance (WCAG 2.2) of "#rrggbb".
double luminance(const std::string& colour) {
  const auto part = [&](std::size_t at) {
    const double share = std::stoi(colour.substr(at, 2), nullptr, 16) / 255.0;
    return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
}

double contrast(const std::string& a, const std::string& b) {
  const auto [dark, light] =
      std::minmax({luminance(a), luminance(b)});  // a list gives values, not references
  return (light + 0.05) / (dark + 0.05);
}

TEST(PageStyle, TextHasAContrastOfAtLeastFourAndAHalf) {
  ASSERT_EQ(palettes().size(), 2U);
  for (Palette& palette : palettes()) {
    SCOPED_TRACE(palette["ground"]);
    for (const char* text : {"ink", "soft", "ours", "good", "warn"}) {
      EXPECT_GE(contrast(palette[text], palette["ground"]), 4.5) << text;
    }
    for (const char* text : {"ink", "soft"}) {
      EXPECT_GE(contrast(palette[text], palette["shade"]), 4.5) << text << " on shaded parts";
    }
  }
}

TEST(PageStyle, SeriesAndAxesHaveAContrastOfAtLeastThree) {
  for (Palette& palette : palettes()) {
    SCOPED_TRACE(palette["ground"]);
    EXPECT_GE(contrast(palette["axis"], palette["ground"]), 3);
    for (int i = 0; i < 8; ++i) {
      const std::string name = "c" + std::to_string(i);
      ASSERT_EQ(palette.count(name), 1U) << name;
      EXPECT_GE(contrast(palette[name], palette["ground"]), 3) << name;
    }
  }
}

TEST(PageStyle, EveryColourIsOfThePaletteAndInBothOfItsBlocks) {
  const std::vector<Palette> both = palettes();
  for (const auto& [name, colour] : both[0]) EXPECT_EQ(both[1].count(name), 1U) << name;
  const std::string all = style();
  const std::regex use("var\\(--([a-z0-9]+)\\)");
  for (auto one = std::sregex_iterator(all.begin(), all.end(), use); one != std::sregex_iterator();
       ++one) {
    EXPECT_EQ(both[0].count((*one)[1]), 1U) << (*one)[1];
  }
  // Shadows are allowed: they are black and nearly transparent.
  const std::string rules =
      std::regex_replace(all.substr(palette_text().size()), std::regex("#000000[0-9a-f]{2}"), "");
  EXPECT_FALSE(std::regex_search(rules, std::regex("#[0-9a-f]{3,8}[;, ]")));
}

TEST(PageStyle, PaperIsLight) {
  const std::string text = palette_text();
  EXPECT_EQ(occurrences(text, "@media"), 1);
  EXPECT_THAT(text, HasSubstr("@media screen and (prefers-color-scheme: dark)"));
  EXPECT_THAT(std::string(between(kPageCss, "@media print {", "\n}")),
              HasSubstr("color-scheme: light;"));
}

TEST(LightColours, AreThoseOfTheFirstBlock) {
  const Palette light = palettes().front();
  EXPECT_EQ(light_colours("a{fill:var(--ink)}b{stroke:var(--c1)}"),
            "a{fill:" + light.at("ink") + "}b{stroke:" + light.at("c1") + "}");
  EXPECT_EQ(light_colours("text{x:1}"), "text{x:1}");
}

TEST(Frame, SaysWhatMadeThePageAndEscapesIt) {
  const std::string page =
      framed_page({.title = "<t>",
                   .subtitle = "a & b",
                   .body = "<p>body</p>",
                   .source = {.program = "harpe 1.2.3",
                              .command = "harpe plan --job '<x>'",
                              .inputs = {{"a<b.csv", "fnv1a64:12"}, {"plain", ""}},
                              .documentation = "man harpe-plan"}});
  EXPECT_EQ(html_error(page), "");
  const std::string footer(between(page, "<footer>", "</footer>"));
  for (const char* part : {"harpe 1.2.3", "harpe plan --job &#39;&lt;x&gt;&#39;", "a&lt;b.csv",
                           "fnv1a64:12", "plain", "man harpe-plan"}) {
    EXPECT_THAT(footer, HasSubstr(part));
  }
  EXPECT_THAT(page, HasSubstr("<meta name=\"color-scheme\" content=\"light dark\">"));
  EXPECT_THAT(page, HasSubstr("width=device-width"));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
  EXPECT_THAT(page, Not(HasSubstr("class=\"banner\"")));
}

TEST(Frame, PutsBannersAboveTheBody) {
  const std::string page =
      framed_page({.title = "t", .banners = {"first <one>", "second"}, .body = "<p>body</p>"});
  EXPECT_EQ(html_error(page), "");
  EXPECT_EQ(occurrences(page, "class=\"banner\" role=\"note\""), 2);
  EXPECT_LT(page.find("first &lt;one&gt;"), page.find("<p>body</p>"));
}

TEST(Frame, AllowsScriptsOnlyWhereThereAreSome) {
  EXPECT_THAT(framed_page({.title = "t"}), Not(HasSubstr("script-src")));
  EXPECT_THAT(framed_page({.title = "t", .has_scripts = true}), HasSubstr("script-src"));
}

}  // namespace
}  // namespace harpe::report
