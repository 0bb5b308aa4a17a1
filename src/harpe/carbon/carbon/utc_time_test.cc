#include "harpe/carbon/carbon/utc_time.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

namespace harpe::carbon {
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
    const UtcTime time{seconds};
    EXPECT_EQ(parse_utc(utc_text(time)), time);
  }
}

TEST(UtcTime, CountsDaysAsTheCalendarDoes) {
  // Every day of 229 years, from the lengths of the months alone.
  UtcTime time{0};
  for (int year = 1970; year < 2200; ++year) {
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    for (int month = 1; month <= 12; ++month) {
      const std::vector<int> lengths{31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
      for (int day = 1; day <= lengths[static_cast<std::size_t>(month - 1)]; ++day) {
        char text[40];
        std::snprintf(text, sizeof(text), "%04d-%02d-%02dT00:00:00Z", year, month, day);
        ASSERT_EQ(utc_text(time), text);
        ASSERT_EQ(parse_utc(text), time);
        time += whole_days(1);
      }
    }
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
}  // namespace harpe::carbon
