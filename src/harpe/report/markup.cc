#include "harpe/report/markup.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

#include "harpe/base/text.h"

namespace harpe::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Returns the length of the well-formed UTF-8 sequence that starts at `at`; 0 if there is none.
std::size_t sequence_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(at);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + length > text.size()) return 0;
  for (std::size_t i = at + 1; i < at + length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte(at + 1);
  // Overlong forms, surrogates and values beyond U+10FFFF.
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
      (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) {
    return 0;
  }
  return length;
}

}  // namespace

std::string concat(std::initializer_list<std::string_view> parts) {
  std::size_t size = 0;
  for (const std::string_view part : parts) size += part.size();
  std::string whole;
  whole.reserve(size);
  for (const std::string_view part : parts) whole += part;
  return whole;
}

std::string clean_text(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequence_length(text, i);
    const bool control = is_control(text[i]) && text[i] != '\t' && text[i] != '\n';
    const std::string_view sequence = text.substr(i, length);
    const bool non_character = sequence == "\xEF\xBF\xBE" || sequence == "\xEF\xBF\xBF";
    if (length == 0 || control || non_character) {
      clean += kReplacement;
    } else {
      clean += sequence;
    }
    i += std::max<std::size_t>(1, length);
  }
  return clean;
}

std::string escape(std::string_view text) {
  using Entity = std::pair<char, std::string_view>;
  constexpr std::array kEntities{Entity{'&', "&amp;"}, Entity{'<', "&lt;"}, Entity{'>', "&gt;"},
                                 Entity{'"', "&quot;"}, Entity{'\'', "&#39;"}};
  std::string escaped;
  for (const char c : clean_text(text)) {
    const auto entity = std::ranges::find(kEntities, c, &Entity::first);
    escaped += entity == kEntities.end() ? std::string_view(&c, 1) : entity->second;
  }
  return escaped;
}

std::string embeddable_json(std::string_view json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string fixed(double value, int decimals) {
  if (!std::isfinite(value)) return "n/a";
  std::string digits(static_cast<std::size_t>(340 + decimals), '\0');
  char* const begin = digits.data();
  const auto end =
      std::to_chars(begin, begin + digits.size(), value, std::chars_format::fixed, decimals).ptr;
  digits.resize(static_cast<std::size_t>(end - begin));
  const bool is_zero = digits.find_first_not_of("-0.") == std::string::npos;
  return is_zero && digits[0] == '-' ? digits.substr(1) : digits;
}

std::string coordinate(double value, int decimals) {
  std::string digits = fixed(value, decimals);
  if (digits.find('.') != std::string::npos) {
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
  }
  return digits;
}

DisplayUnit energy_unit(double joules) {
  const double size = std::abs(joules);
  if (size >= 1e9) return {1e9, "GJ"};
  if (size >= 1e6) return {1e6, "MJ"};
  if (size >= 1e3) return {1e3, "kJ"};
  if (size >= 1 || size == 0) return {1, "J"};
  return {1e-3, "mJ"};
}

DisplayUnit time_unit(double seconds) {
  const double size = std::abs(seconds);
  if (size >= 1 || size == 0) return {1, "s"};
  if (size >= 1e-3) return {1e-3, "ms"};
  return {1e-6, "µs"};
}

std::string in_unit(double value, const DisplayUnit& unit) {
  const double shown = value / unit.divisor;
  const double size = std::abs(shown);
  const int decimals = size >= 1000 ? 1 : size >= 100 ? 2 : size >= 10 ? 3 : 4;
  return concat({fixed(shown, decimals), "\u00A0", unit.name});
}

Ticks ticks(double low, double high, int count) {
  Ticks result;
  if (!(high > low) || !std::isfinite(high - low)) return {{low}, 3};
  const double rough = (high - low) / std::max(1, count);
  const double magnitude = std::pow(10.0, std::floor(std::log10(rough)));
  const double fraction = rough / magnitude;
  const double step = magnitude * (fraction <= 1 ? 1 : fraction <= 2 ? 2 : fraction <= 5 ? 5 : 10);
  const auto first = static_cast<std::int64_t>(std::ceil(low / step - 1e-9));
  const auto last = static_cast<std::int64_t>(std::floor(high / step + 1e-9));
  for (std::int64_t i = first; i <= last && result.values.size() < 100; ++i) {
    result.values.push_back(static_cast<double>(i) * step);
  }
  // A scale needs two ticks; if the range has fewer, a smaller step is tried.
  if (result.values.size() < 2 && count > 1 && count < 100) return ticks(low, high, count + 1);
  result.decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  return result;
}

std::string fill(std::string_view page,
                 const std::vector<std::pair<std::string_view, std::string_view>>& values) {
  std::string filled;
  std::size_t at = 0;
  while (at < page.size()) {
    const std::size_t open = page.find("{{", at);
    const std::size_t close =
        open == std::string_view::npos ? std::string_view::npos : page.find("}}", open);
    if (close == std::string_view::npos) break;
    const std::string_view name = page.substr(open + 2, close - open - 2);
    const auto entry =
        std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == name; });
    filled += page.substr(at, open - at);
    filled += entry == values.end() ? page.substr(open, close + 2 - open) : entry->second;
    at = close + 2;
  }
  return filled += page.substr(at);
}

}  // namespace harpe::report
