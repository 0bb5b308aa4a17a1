#include "harpe/plan/instruction/knobs.h"

#include <gtest/gtest.h>

#include <string>

namespace harpe::plan {
namespace {

TEST(Knobs, LabelsAreShortWords) {
  EXPECT_EQ(Label::of("sm12_overlap")->text(), "sm12_overlap");
  EXPECT_EQ(Label::of(std::string(Label::kMostBytes, 'a'))->text().size(), Label::kMostBytes);
  EXPECT_FALSE(Label::of(""));
  EXPECT_FALSE(Label::of("two words"));
  EXPECT_FALSE(Label::of("a,b"));
  EXPECT_FALSE(Label::of(std::string(Label::kMostBytes + 1, 'a')));
}

TEST(Knobs, AreEmptyUntilOneIsGiven) {
  EXPECT_TRUE(Knobs{}.empty());
  EXPECT_FALSE(Knobs{.memory_clock = {1215}}.empty());
  EXPECT_FALSE(Knobs{.power_limit = {250}}.empty());
  EXPECT_FALSE(Knobs{.label = *Label::of("a")}.empty());
}

TEST(Knobs, AreOrdered) {
  EXPECT_LT(Knobs{}, Knobs{.memory_clock = {1215}});
  EXPECT_LT(*Label::of("a"), *Label::of("ab"));
  EXPECT_NE(Knobs{.label = *Label::of("a")}, Knobs{.label = *Label::of("b")});
}

}  // namespace
}  // namespace harpe::plan
