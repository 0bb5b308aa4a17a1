#include "harpe/carbon/carbon/utc_time.h"

#include <cstdio>

#include "harpe/base/text.h"

namespace harpe::carbon {
namespace {

constexpr std::int64_t kDay = 86'400;

struct Date {
  std::int64_t year = 1970;
  int month = 1, day = 1;
};

bool is_leap(std::int64_t year) {
  return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

int days_of_month(std::int64_t year, int month) {
  if (month == 2) return is_leap(year) ? 29 : 28;
  return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

// Years begin in March, so that a leap day is the last day of its year. Conversions as in Hinnant,
// "chrono-compatible low-level date algorithms", 2021.
constexpr std::int64_t kEraDays = 146'097;    // 400 years
constexpr std::int64_t kEpochDays = 719'468;  // from 0000-03-01 to 1970-01-01

std::int64_t days_since_1970(const Date& date) {
  const std::int64_t year = date.month <= 2 ? date.year - 1 : date.year;
  const std::int64_t era = year / 400, year_of_era = year % 400;
  const int month = (date.month + 9) % 12;
  const std::int64_t day_of_year = (153 * month + 2) / 5 + date.day - 1;
  const std::int64_t day_of_era =
      365 * year_of_era + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * kEraDays + day_of_era - kEpochDays;
}

/// \param days  not before the year 0
Date date_of(std::int64_t days) {
  const std::int64_t era = (days + kEpochDays) / kEraDays, day = (days + kEpochDays) % kEraDays;
  const std::int64_t year = (day - day / 1460 + day / 36'524 - day / 146'096) / 365;
  const std::int64_t day_of_year = day - (365 * year + year / 4 - year / 100);
  const auto month = static_cast<int>((5 * day_of_year + 2) / 153);
  return {.year = era * 400 + year + (month >= 10 ? 1 : 0),
          .month = month < 10 ? month + 3 : month - 9,
          .day = static_cast<int>(day_of_year - (153 * month + 2) / 5 + 1)};
}

/// A reader that consumes a text from its front.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }
  bool starts_with_digit() const { return !done() && rest_[0] >= '0' && rest_[0] <= '9'; }
  bool take(char c) {
    if (done() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::optional<int> digits(std::size_t count) {
    if (rest_.size() < count) return std::nullopt;
    int value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!starts_with_digit()) return std::nullopt;
      value = value * 10 + (rest_[0] - '0');
      rest_.remove_prefix(1);
    }
    return value;
  }

 private:
  std::string_view rest_;
};

std::optional<std::int64_t> parse_date(Reader& reader) {
  const auto year = reader.digits(4);
  if (!year || !reader.take('-')) return std::nullopt;
  const auto month = reader.digits(2);
  if (!month || !reader.take('-')) return std::nullopt;
  const auto day = reader.digits(2);
  if (!day || *year < 1970 || *year > 2199 || *month < 1 || *month > 12) return std::nullopt;
  if (*day < 1 || *day > days_of_month(*year, *month)) return std::nullopt;
  return days_since_1970({.year = *year, .month = *month, .day = *day});
}

/// Reads a time of day, in seconds since midnight.
std::optional<int> parse_time_of_day(Reader& reader) {
  const auto hour = reader.digits(2);
  if (!hour || !reader.take(':')) return std::nullopt;
  const auto minute = reader.digits(2);
  std::optional<int> second = 0;
  if (reader.take(':')) {
    second = reader.digits(2);
    if (second && reader.take('.')) {
      if (!reader.take('0')) return std::nullopt;
      while (reader.take('0')) continue;
    }
  }
  if (!minute || !second || *hour > 23 || *minute > 59 || *second > 59) return std::nullopt;
  return *hour * 3600 + *minute * 60 + *second;
}

/// Reads an offset, in seconds east of Greenwich.
std::optional<int> parse_offset(Reader& reader) {
  if (reader.done() || reader.take('Z')) return 0;
  const int sign = reader.take('-') ? -1 : reader.take('+') ? 1 : 0;
  const auto hour = reader.digits(2);
  if (sign == 0 || !hour) return std::nullopt;
  std::optional<int> minute = 0;
  if (reader.take(':') || reader.starts_with_digit()) minute = reader.digits(2);
  if (!minute || *hour > 14 || *minute > 59) return std::nullopt;
  return sign * (*hour * 3600 + *minute * 60);
}

}  // namespace

std::optional<UtcTime> parse_utc(std::string_view text) {
  Reader reader(trim(text));
  const auto date = parse_date(reader);
  if (!date) return std::nullopt;
  if (reader.done()) return UtcTime{*date * kDay};
  if (!reader.take('T') && !reader.take(' ')) return std::nullopt;
  const auto time = parse_time_of_day(reader);
  if (!time) return std::nullopt;
  const auto offset = parse_offset(reader);
  if (!offset || !reader.done()) return std::nullopt;
  return UtcTime{*date * kDay + *time - *offset};
}

std::string utc_text(UtcTime time) {
  const std::int64_t seconds = (time.since_1970 % kDay + kDay) % kDay;
  const Date date = date_of((time.since_1970 - seconds) / kDay);
  char text[40];
  const int length = std::snprintf(
      text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02dZ", static_cast<int>(date.year), date.month,
      date.day, static_cast<int>(seconds / 3600), static_cast<int>(seconds / 60 % 60),
      static_cast<int>(seconds % 60));
  return {text, static_cast<std::size_t>(length)};
}

std::string minutes_text(WholeSeconds step) {
  return shortest(static_cast<double>(step.count()) / 60) + " min";
}

std::string month_text(UtcTime time) {
  return utc_text(time).substr(0, 7);
}

}  // namespace harpe::carbon
