#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harpe/command/cli/job_view.h"

namespace harpe::command {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kControl =
    R"({"terms": {"iterations": 50000, "probability": 0.95}, "source": "uk:13", "kind": "direct",
        "iterations_done": 1200, "decision": {"mode": "paced", "why": "412 g/kWh",
        "guard": "by the errors of 147 earlier forecasts",
        "iteration_time_s": 16.4, "resumes": null, "valid_until": "2026-11-25T05:00:00Z",
        "deadline": "2026-12-01T06:00:00Z", "in_time": true, "finish": "2026-12-01T03:10:00Z",
        "earliest": "2026-11-30T01:00:00Z", "expected_g": 91700, "static_g": 100000,
        "gain": 0.083}})";

TEST(CarbonControlView, SaysHowFastWhyAndWhatIsExpected) {
  EXPECT_EQ(carbon_control_line(kControl),
            "paced, 16.4 s an iteration (412 g/kWh); 8.3 % below a static plan");
  const std::string view = carbon_control_view(kControl);
  for (const char* part : {"uk:13, direct", "1200 of 50000", "2026-12-01T06:00:00Z", "0.95",
                           "91.7 kg", "100 kg", "8.3 %", "147 earlier forecasts"}) {
    EXPECT_THAT(view, HasSubstr(part));
  }
}

TEST(CarbonControlView, SaysHowFarBehindAJobOfUnknownLengthIs) {
  const std::string view = carbon_control_view(
      R"({"terms": {"slack_s": 43200, "deadline_factor": 1.25}, "source": "uk:13",
          "kind": "direct", "iterations_done": 1200, "decision": {"mode": "paused",
          "why": "412 g/kWh", "behind_s": 9000, "deadline": null, "finish": null, "in_time": true,
          "valid_until": "2026-11-25T05:00:00Z", "expected_g": 91700, "static_g": 100000,
          "gain": 0.083}})");
  for (const char* part :
       {"1200 are done, of an unknown number", "2 h 30 min behind; allowed: 12 h behind a pace",
        "1.25 times", "91.7 kg"}) {
    EXPECT_THAT(view, HasSubstr(part));
  }
  EXPECT_THAT(view, Not(HasSubstr("deadline")));
}

TEST(CarbonControlView, ShowsAnythingThatAServerMaySay) {
  EXPECT_EQ(carbon_control_line("null"), "");
  EXPECT_EQ(carbon_control_view("null"),
            "the job does not adapt to the carbon intensity of its grid\n");
  for (const char* odd : {"", "[]", "{}", "3", R"({"decision": {"gain": "much", "why": 3}})",
                          R"({"terms": 1, "decision": null})"}) {
    carbon_control_line(odd);
    EXPECT_FALSE(carbon_control_view(odd).empty()) << odd;
  }
}

}  // namespace
}  // namespace harpe::command
