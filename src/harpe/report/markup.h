#pragma once
/// \file
/// Text and numbers for SVG, HTML and JSON that is embedded in HTML.

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace harpe::report {

/// Concatenates the parts.
std::string concat(std::initializer_list<std::string_view> parts);

/// Returns valid UTF-8 for XML: malformed bytes and control characters become U+FFFD.
std::string clean_text(std::string_view text);

/// Returns `clean_text` with the five special characters of HTML and XML as entities: safe as an
/// element's content and in a quoted attribute.
std::string escape(std::string_view text);

/// Returns the JSON document in a form without `<`, safe inside `<script>`.
std::string embeddable_json(std::string_view json);

/// Returns `value` with `decimals` digits after the point; never "-0".
std::string fixed(double value, int decimals);

/// Returns a coordinate with at most `decimals` digits after the point, without trailing zeros.
std::string coordinate(double value, int decimals = 2);

/// A unit that makes numbers of a given size readable: `value / divisor` is the number in `name`.
struct DisplayUnit {
  double divisor = 1;
  std::string name;
};
DisplayUnit energy_unit(double joules);
DisplayUnit time_unit(double seconds);

/// Returns `value` in `unit` with about five significant digits and the unit's name, "374.17 kJ".
std::string in_unit(double value, const DisplayUnit& unit);

/// Round values between `low` and `high`, about `count` of them (at least two if `count` is above
/// one), and the number of decimals they need.
struct Ticks {
  std::vector<double> values;
  int decimals = 0;
};
Ticks ticks(double low, double high, int count);

/// Returns `page` with every `{{name}}` replaced by the value of that name, in one pass: values are
/// not searched again. Unknown names stay unchanged.
std::string fill(std::string_view page,
                 const std::vector<std::pair<std::string_view, std::string_view>>& values);

}  // namespace harpe::report
