#include "harpe/carbon/utc_time.h"

#include <cstdio>

#include "harpe/base/text.h"

namespace harpe {
namespace {

using std::chrono::sys_days;
using std::chrono::sys_seconds;
using std::chrono::year_month_day;

/// Reads from the front of a text.
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

std::optional<sys_days> parse_date(Reader& reader) {
  const auto year = reader.digits(4);
  if (!year || !reader.take('-')) return std::nullopt;
  const auto month = reader.digits(2);
  if (!month || !reader.take('-')) return std::nullopt;
  const auto day = reader.digits(2);
  if (!day || *year < 1970 || *year > 2199) return std::nullopt;
  const year_month_day date{std::chrono::year(*year),
                            std::chrono::month(static_cast<unsigned>(*month)),
                            std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  return sys_days(date);
}

/// Seconds since midnight.
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

/// Seconds east of Greenwich.
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

std::optional<sys_seconds> parse_utc(std::string_view text) {
  Reader reader(trim(text));
  const auto date = parse_date(reader);
  if (!date) return std::nullopt;
  if (reader.done()) return sys_seconds(*date);
  if (!reader.take('T') && !reader.take(' ')) return std::nullopt;
  const auto time = parse_time_of_day(reader);
  if (!time) return std::nullopt;
  const auto offset = parse_offset(reader);
  if (!offset || !reader.done()) return std::nullopt;
  return sys_seconds(*date) + std::chrono::seconds(*time - *offset);
}

std::string utc_text(sys_seconds time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const year_month_day date(day);
  const auto seconds = static_cast<int>((time - day).count());
  char text[40];
  const int length = std::snprintf(
      text, sizeof(text), "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), seconds / 3600,
      seconds / 60 % 60, seconds % 60);
  return {text, static_cast<std::size_t>(length)};
}

std::string minutes_text(std::chrono::seconds step) {
  return shortest(static_cast<double>(step.count()) / 60) + " min";
}

std::string month_text(sys_seconds time) {
  return utc_text(time).substr(0, 7);
}

}  // namespace harpe
