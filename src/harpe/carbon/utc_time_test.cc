#include "harpe/carbon/utc_time.h"

#include <gtest/gtest.h>

namespace harpe {
namespace {

TEST(UtcTime, ReadsEveryWayThatFilesWriteIt) {
  for (const char* text :
       {"2022-10-20T06:20:00+00:00", "2022-10-20 06:20:00", "2022-10-20T06:20Z", "2022-10-20 06:20",
        "2022-10-20T06:20:00.000Z", "2022-10-20T08:20:00+02:00", "2022-10-19T22:50:00-0730",
        " 2022-10-20T06:20:00Z "}) {
    const auto time = parse_utc(text);
    ASSERT_TRUE(time) << text;
    EXPECT_EQ(utc_text(*time), "2022-10-20T06:20:00Z") << text;
  }
  EXPECT_EQ(utc_text(*parse_utc("2021-01-01")), "2021-01-01T00:00:00Z");
  EXPECT_EQ(month_text(*parse_utc("2021-01-31T23:00:00-02:00")), "2021-02");
}

TEST(UtcTime, ReadsWhatItWrites) {
  for (const std::int64_t seconds : {0LL, 951'782'400LL, 1'666'246'800LL, 7'000'000'000LL}) {
    const std::chrono::sys_seconds time{std::chrono::seconds(seconds)};
    EXPECT_EQ(parse_utc(utc_text(time)), time);
  }
}

TEST(UtcTime, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "2022", "2022-10", "2022-02-30", "2022-13-01", "1969-12-31", "2200-01-01",
        "2022-10-20T24:00Z", "2022-10-20T06:60Z", "2022-10-20T06:20:60Z", "2022-10-20T06",
        "2022-10-20T06:20:00.5Z", "2022-10-20T06:20:00.", "2022-10-20T06:20ZZ", "20.10.2022 06:20",
        "2022-10-20T06:20+", "2022-10-20T06:20+15:00", "2022-10-20X06:20",
        "2022-10-20T06:20 CET"}) {
    EXPECT_FALSE(parse_utc(text)) << text;
  }
}

}  // namespace
}  // namespace harpe
