// Profiles in Zeus's JSON.

#include "harpe/zeus/power_limit/limit_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harpe::zeus {
namespace {

using ::testing::HasSubstr;

// As pydantic writes it for Zeus, except for the end of line.
const char* const kOfZeus =
    "{\n"
    "    \"measurements\": [\n"
    "        {\n"
    "            \"power_limit\": 250,\n"
    "            \"energy\": 1900.33,\n"
    "            \"time\": 9.99\n"
    "        },\n"
    "        {\n"
    "            \"power_limit\": 225,\n"
    "            \"energy\": 1800.5,\n"
    "            \"time\": 10.25\n"
    "        }\n"
    "    ]\n"
    "}\n";

TEST(LimitProfile, OfZeusIsReadAndWrittenAsItIs) {
  const auto profile = parse_limit_profile(kOfZeus, "p.json");
  ASSERT_TRUE(profile.ok()) << profile.error().text();
  ASSERT_EQ(profile->measurements.size(), 2U);
  EXPECT_EQ(profile->measurements[0], (Measurement{250, {9.99}, {1900.33}}));
  EXPECT_FALSE(profile->key.has_value());
  EXPECT_EQ(limit_profile_json(*profile), kOfZeus);
}

TEST(LimitProfile, ReadsBackWhatItSaysOfItself) {
  const LimitProfile profile{.kind = KnobKind::kGraphicsClock,
                             .measurements = {{1410, {1}, {2}}, {1200, {2}, {1.5}}},
                             .key = ProfileKey{"NVIDIA A40", 256, "resnet50"},
                             .measured_at = 1.7e9};
  const auto again = parse_limit_profile(limit_profile_json(profile), "p.json");
  ASSERT_TRUE(again.ok()) << again.error().text();
  EXPECT_EQ(again->kind, profile.kind);
  EXPECT_EQ(again->measurements, profile.measurements);
  EXPECT_EQ(again->key, profile.key);
  EXPECT_EQ(again->measured_at, profile.measured_at);
}

std::string error_of(const std::string& text) {
  const auto profile = parse_limit_profile(text, "p.json");
  return profile.ok() ? "" : profile.error().text();
}

TEST(LimitProfile, SaysWhatIsWrong) {
  EXPECT_THAT(error_of("{}"), HasSubstr("at least one measurement"));
  EXPECT_THAT(error_of(R"({"measurements": [{"energy": 1, "time": 1}]})"),
              HasSubstr("either power_limit (W) or clock (MHz)"));
  EXPECT_THAT(error_of(R"({"measurements": [{"power_limit": 100, "energy": 1}]})"),
              HasSubstr("missing"));
  EXPECT_THAT(error_of(R"({"measurements": [{"power_limit": 100, "energy": -1, "time": 1}]})"),
              HasSubstr("energy"));
  EXPECT_THAT(error_of(R"({"measurements": [{"power_limit": 100, "energy": 1, "time": 1},
                                            {"power_limit": 200, "energy": 1, "time": 1}]})"),
              HasSubstr("descend"));
  EXPECT_THAT(error_of(R"({"measurements": [{"power_limit": 100, "energy": 1, "time": 1},
                                            {"clock": 90, "energy": 1, "time": 1}]})"),
              HasSubstr("found both"));
}

TEST(LimitProfile, IsNotUsedAgainForAnythingElseOrTooLate) {
  const ProfileKey key{"A40", 256, "resnet50"};
  const LimitProfile profile{.measurements = {{300, {1}, {1}}}, .key = key, .measured_at = 1000.0};
  const Seconds day{86400};
  EXPECT_FALSE(why_stale(profile, key, 2000, day).has_value());
  EXPECT_THAT(*why_stale(profile, {"H100", 256, "resnet50"}, 2000, day), HasSubstr("GPU"));
  EXPECT_THAT(*why_stale(profile, {"A40", 128, "resnet50"}, 2000, day), HasSubstr("batch size"));
  EXPECT_THAT(*why_stale(profile, {"A40", 256, "bert"}, 2000, day), HasSubstr("job"));
  EXPECT_THAT(*why_stale(profile, key, 1e6, day), HasSubstr("days old"));
  EXPECT_THAT(*why_stale(profile, key, 10, day), HasSubstr("future"));
  LimitProfile of_zeus = profile;
  of_zeus.key = std::nullopt;
  EXPECT_THAT(*why_stale(of_zeus, key, 2000, day), HasSubstr("does not state"));
}

}  // namespace
}  // namespace harpe::zeus
