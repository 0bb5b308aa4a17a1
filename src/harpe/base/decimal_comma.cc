#include "harpe/base/decimal_comma.h"

#include "harpe/base/text.h"

namespace harpe {

std::string decimal_comma_hint(std::string_view text) {
  constexpr std::size_t kLongest = 40;  // nothing longer is a number with its unit
  text = trim(text);
  const std::size_t comma = text.find(',');
  if (text.size() > kLongest || comma == std::string_view::npos || comma == 0 ||
      text.find_first_of(",.", comma + 1) != std::string_view::npos ||
      text.substr(0, comma).find('.') != std::string_view::npos) {
    return {};
  }
  const auto is_digit = [&](std::size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
  };
  if (!is_digit(comma - 1) || !is_digit(comma + 1)) return {};
  std::string with_point(text);
  with_point[comma] = '.';
  return "; use a point: " + with_point;
}

}  // namespace harpe
