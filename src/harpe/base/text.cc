#include "harpe/base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

namespace harpe {
namespace {

template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  text = trim(text);
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

/// Returns the number of edits (insert, delete, replace, swap of neighbours) that turn
/// `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last, last, row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1,
                         last[j - 1] + static_cast<std::size_t>(a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return text.substr(text.size());
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

std::optional<double> parse_number(std::string_view text) {
  const auto value = parse_whole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  return parse_whole<std::int64_t>(text);
}

std::string shortest(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

std::string shortest(double value, int decimals) {
  const double scale = std::pow(10.0, decimals);
  return shortest(std::round(value * scale) / scale);
}

std::string grouped(double value, int decimals) {
  if (!std::isfinite(value)) return shortest(value);
  std::string digits(static_cast<std::size_t>(330 + decimals), '\0');  // the largest has 309 digits
  char* const begin = digits.data();
  digits.resize(
      static_cast<std::size_t>(std::to_chars(begin, begin + digits.size(), std::abs(value),
                                             std::chars_format::fixed, decimals)
                                   .ptr -
                               begin));

  const bool is_zero = digits.find_first_not_of("0.") == std::string::npos;
  const std::size_t whole = std::min(digits.find('.'), digits.size());
  std::string text = std::signbit(value) && !is_zero ? "-" : "";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && i < whole && (whole - i) % 3 == 0) text += ' ';
    text += digits[i];
  }
  return text;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string in_quotes(std::string_view text, std::size_t limit) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string result = "'";
  for (const char c : text.substr(0, limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      result += c;
    } else {
      result += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return result + (text.size() > limit ? "...'" : "'");
}

std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongest = 64;  // nothing longer is a typo of a name
  if (word.size() > kLongest) return std::nullopt;
  const std::string wanted = lower(word);
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::optional<std::string> found;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(wanted, lower(candidate));
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  for (;;) {
    const std::size_t comma = text.find(',');
    items.emplace_back(trim(text.substr(0, comma)));
    if (comma == std::string_view::npos) return items;
    text.remove_prefix(comma + 1);
  }
}

std::vector<std::string> unbroken_words(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n";
  constexpr std::array<std::string_view, 16> kUnits = {
      "%", "s", "ms", "min", "h", "d", "J", "kJ", "MJ", "W", "kW", "MW", "kWh", "MHz", "kg", "t"};
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto ends_in_group = [&](const std::string& word) {
    const auto digits = std::find_if_not(word.rbegin(), word.rend(), is_digit) - word.rbegin();
    return digits >= 1 && digits <= 3;
  };
  const auto belongs = [&](std::string_view word, const std::string& before) {
    if (!is_digit(before.back())) return false;
    const auto digits = std::ranges::find_if_not(word, is_digit) - word.begin();
    if (digits == 3) return ends_in_group(before);
    const std::size_t end = word.find_last_not_of(".,;:)");
    return std::ranges::find(kUnits, word.substr(0, end + 1)) != kUnits.end();
  };
  std::vector<std::string> words;
  for (std::size_t at = text.find_first_not_of(kSpace); at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (!words.empty() && belongs(word, words.back())) {
      words.back() += ' ';
      words.back() += word;
    } else {
      words.emplace_back(word);
    }
    at = text.find_first_not_of(kSpace, end);
  }
  return words;
}

}  // namespace harpe
