#pragma once
/// \file
/// Reading numbers and lines out of text that came from outside.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace harpe {

/// `text` without white space at both ends.
std::string_view trim(std::string_view text);

/// `text` without the UTF-8 byte order mark it may begin with.
std::string_view without_byte_order_mark(std::string_view text);

/// Parses the whole of `text` (trimmed) as a finite decimal number; nothing else is accepted: no
/// NaN, no infinity, no trailing characters, no locale.
std::optional<double> parse_number(std::string_view text);

/// The same for a decimal integer that fits.
std::optional<std::int64_t> parse_integer(std::string_view text);

/// `value` with so many significant digits that reading it back gives the same number, in the
/// shortest form.
std::string shortest(double value);

/// The same of `value` rounded to so many decimals.
std::string shortest(double value, int decimals);

/// `value` with `decimals` digits after the point and a space between groups of three digits:
/// "4 321 574.1".
std::string grouped(double value, int decimals);

/// ASCII lower case.
std::string lower(std::string_view text);

/// `text` in single quotes for a message: bytes that are not printable ASCII as `\\xNN`, cut after
/// `limit` bytes.
std::string in_quotes(std::string_view text, std::size_t limit = 40);

/// The candidate nearest to `word` by edit distance, if close enough to be a likely typo.
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

/// Returns the parts of the text between commas, trimmed: "a, b" has "a" and "b".
std::vector<std::string> split_list(std::string_view text);

/// Returns the words of a text. A number with its groups of digits, its "%" or its unit is one
/// word: "395 448.6 kWh".
std::vector<std::string> unbroken_words(std::string_view text);

}  // namespace harpe
