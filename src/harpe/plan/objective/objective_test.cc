#include "harpe/plan/objective/objective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace harpe::plan {
namespace {

using Kind = Objective::Kind;

const std::vector<Objective> kOneOfEachKind = {
    {Kind::kSlowdown, 0.05},       {Kind::kDeadline, 16.5},  {Kind::kStragglerTime, 20},
    {Kind::kStragglerFactor, 1.2}, {Kind::kPowerCap, 40000}, {Kind::kLeastEnergy, 0},
};

TEST(Objective, OfEachKindReadsBackFromItsJson) {
  for (const Objective& objective : kOneOfEachKind) {
    const auto read = parse_objective(objective_json(objective));
    ASSERT_TRUE(read.ok()) << read.error().text();
    EXPECT_EQ(*read, objective) << text_of(objective);
    EXPECT_TRUE(is_valid(objective));
  }
}

TEST(Objective, OfEachKindReadsBackFromItsOption) {
  for (const Objective& objective : kOneOfEachKind) {
    const std::string text = option_text(objective);
    const std::size_t space = text.find(' ');
    const std::string name = text.substr(2, space == std::string::npos ? space : space - 2);
    const auto options = objective_options();
    const auto option = std::ranges::find(options, name, &ObjectiveOption::name);
    ASSERT_NE(option, options.end()) << text;
    EXPECT_EQ(option->value.empty(), space == std::string::npos) << text;
    const auto read = option->parse(option->value.empty() ? "" : text.substr(space + 1));
    ASSERT_TRUE(read.ok()) << read.error().text();
    EXPECT_EQ(*read, objective) << text;
  }
}

TEST(Objective, OnlySomeMayBeInfeasible) {
  for (const Objective& objective : kOneOfEachKind) {
    const bool is_always =
        objective.kind == Kind::kSlowdown || objective.kind == Kind::kLeastEnergy;
    EXPECT_EQ(objective.is_always_feasible(), is_always) << text_of(objective);
  }
}

TEST(Objective, SaysWhenAnIterationMayEnd) {
  const ReferenceTimes reference{.fastest = Seconds{10}, .all_max = Seconds{11}};
  const auto time = [&](Kind kind, double value) { return time_of({kind, value}, reference); };
  EXPECT_EQ(time(Kind::kSlowdown, 0.5), Seconds{15});
  EXPECT_EQ(time(Kind::kStragglerFactor, 2), Seconds{22});
  EXPECT_EQ(time(Kind::kDeadline, 16.5), Seconds{16.5});
  EXPECT_EQ(time(Kind::kStragglerTime, 20), Seconds{20});
  EXPECT_EQ(time(Kind::kPowerCap, 40000), std::nullopt);
  EXPECT_EQ(time(Kind::kLeastEnergy, 0), std::nullopt);
}

TEST(Objective, IsMetByAnIterationInTimeOrWithinTheCap) {
  const ReferenceTimes reference{Seconds{1}, Seconds{1.1}};
  const auto met = [&](Objective objective, double time, double energy, double tolerance = 0) {
    return is_met(objective, reference, Seconds{time}, Joules{energy}, tolerance);
  };
  EXPECT_TRUE(met({Kind::kSlowdown, 0.05}, 1.05, 1e9));
  EXPECT_FALSE(met({Kind::kSlowdown, 0.05}, 1.051, 0));
  EXPECT_TRUE(met({Kind::kSlowdown, 0.05}, 1.051, 0, 1e-3));
  EXPECT_TRUE(met({Kind::kStragglerFactor, 2}, 2.2, 0));
  EXPECT_FALSE(met({Kind::kDeadline, 1.5}, 1.6, 0));
  EXPECT_TRUE(met({Kind::kPowerCap, 100}, 2, 200));
  EXPECT_FALSE(met({Kind::kPowerCap, 100}, 1, 101)) << "a faster iteration may break a cap";
  EXPECT_TRUE(met({Kind::kLeastEnergy}, 1e6, 1e9));
}

TEST(Objective, IsSaidInWords) {
  std::vector<std::string> texts;
  for (const Objective& objective : kOneOfEachKind) texts.push_back(text_of(objective));
  EXPECT_EQ(texts, (std::vector<std::string>{"slowdown 5 %", "deadline 16.5 s", "straggler 20 s",
                                             "straggler 1.2 x all-max", "power cap 40000 W",
                                             "least energy"}));
  EXPECT_EQ(text_of({Kind::kSlowdown, 0}), "no slowdown");
}

TEST(Objective, IsExactlyOne) {
  for (const char* text :
       {"{}", R"({"slowdown": 0, "deadline_s": 1})", R"({"least_energy": false})",
        R"({"straggler_s": 1, "straggler_factor": 1})"}) {
    const auto read = parse_objective(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_NE(read.error().text().find("exactly one of"), std::string::npos) << text;
  }
}

TEST(Objective, WhoseValueIsWrongHasThatErrorAlone) {
  for (const char* text :
       {R"({"slowdown": -1})", R"({"deadline_s": 0})", R"({"power_cap_w": "much"})",
        R"({"straggler_factor": 1e9})", R"({"least_energy": 1})"}) {
    const auto read = parse_objective(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().diagnostics.size(), 1U) << read.error().text();
  }
}

TEST(Objective, HasNoMembersThatAreNotKnown) {
  EXPECT_FALSE(parse_objective(R"({"slowdown": 0, "wish": 1})").ok());
}

TEST(Objective, IsValidWithinWhatJsonMaySay) {
  EXPECT_TRUE(is_valid({Kind::kSlowdown, 0}));
  EXPECT_FALSE(is_valid({Kind::kSlowdown, -0.1}));
  EXPECT_FALSE(is_valid({Kind::kDeadline, 0}));
  EXPECT_FALSE(is_valid({Kind::kPowerCap, std::numeric_limits<double>::infinity()}));
  EXPECT_FALSE(is_valid({Kind::kSlowdown, std::numeric_limits<double>::quiet_NaN()}));
}

}  // namespace
}  // namespace harpe::plan
