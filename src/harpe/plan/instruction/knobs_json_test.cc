#include "harpe/plan/instruction/knobs_json.h"

#include <gtest/gtest.h>

#include "harpe/base/json.h"

namespace harpe::plan {
namespace {

const Knobs kAll{.memory_clock = {1215}, .power_limit = {250.5}, .label = *Label::of("sm12")};

TEST(KnobsJson, HasTheMembersThatAreGiven) {
  EXPECT_EQ(knobs_members({}), "");
  EXPECT_EQ(knobs_members(kAll),
            R"("memory_frequency_mhz": 1215, "power_limit_w": 250.5, "label": "sm12")");
  EXPECT_EQ(knobs_members({.label = *Label::of("a")}), R"("label": "a")");
}

/// Returns the list under "knobs" of a document, or its diagnostics.
Result<std::vector<Knobs>> read(const std::string& list) {
  const auto document = parse_json("{\"knobs\": " + list + "}", "k.json");
  EXPECT_TRUE(document.ok());
  Diagnostics diagnostics("k.json");
  Fields fields(*document, "the file", diagnostics);
  std::vector<Knobs> knobs = read_knob_list(fields, "knobs", diagnostics);
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return knobs;
}

TEST(KnobsJson, NumbersDistinctKnobsAndReadsThemBack) {
  KnobNumbers numbers;
  EXPECT_TRUE(numbers.empty());
  EXPECT_EQ(numbers.number({}), 0u);
  EXPECT_EQ(numbers.number(kAll), 1u);
  EXPECT_EQ(numbers.number({.power_limit = {200}}), 2u);
  EXPECT_EQ(numbers.number(kAll), 1u);
  EXPECT_FALSE(numbers.empty());
  const auto again = read(numbers.json());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, (std::vector<Knobs>{{}, kAll, {.power_limit = {200}}}));
}

TEST(KnobsJson, RefusesWhatIsOutOfRange) {
  for (const char* const bad :
       {R"([{"memory_frequency_mhz": 0}])", R"([{"memory_frequency_mhz": 100001}])",
        R"([{"power_limit_w": 0}])", R"([{"power_limit_w": 1e7}])", R"([{"label": ""}])",
        R"([{"label": "a b"}])", R"([{"label": 3}])", R"([{"lable": "a"}])", R"([3])"}) {
    EXPECT_FALSE(read(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace harpe::plan
