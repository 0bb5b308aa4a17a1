#pragma once
/// \file
/// Numbers, words and quotes in text.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace harpe {

/// Returns the text without white space at both ends.
std::string_view trim(std::string_view text);

/// Returns the text without a UTF-8 byte order mark at its start.
std::string_view without_byte_order_mark(std::string_view text);

/// Parses the whole text (trimmed) as a finite decimal number. Returns nullopt for NaN, infinity
/// and trailing characters. Independent of the locale.
std::optional<double> parse_number(std::string_view text);

/// Parses the whole text (trimmed) as a decimal integer of 64 bits.
std::optional<std::int64_t> parse_integer(std::string_view text);

/// Returns the shortest text that parses to the same number.
std::string shortest(double value);

/// Returns the shortest text of the value rounded to `decimals` digits after the point.
std::string shortest(double value, int decimals);

/// Returns the value with `decimals` digits after the point and a space between groups of three
/// digits: "4 321 574.1".
std::string grouped(double value, int decimals);

/// Returns true for an ASCII control character: below the space, or DEL. Other bytes are false.
constexpr bool is_control(char c) {
  return (c >= 0 && c < ' ') || c == '\x7f';
}

/// Returns the text in lower case; only ASCII letters change.
std::string lower(std::string_view text);

/// Returns the text in single quotes for a message: bytes other than printable ASCII as `\\xNN`,
/// cut after `limit` bytes.
std::string in_quotes(std::string_view text, std::size_t limit = 40);

/// Returns the candidate nearest to `word` by edit distance; nullopt if none is close enough for a
/// typing error.
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

/// Returns the parts of the text between commas, trimmed: "a" and "b" for "a, b".
std::vector<std::string> split_list(std::string_view text);

/// Returns the words of a text. A number with its groups of digits, its "%" or its unit is one
/// word: "395 448.6 kWh".
std::vector<std::string> unbroken_words(std::string_view text);

}  // namespace harpe
