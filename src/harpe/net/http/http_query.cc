#include "harpe/net/http/http_query.h"

#include <algorithm>
#include <limits>

#include "harpe/base/text.h"

namespace harpe::net {
namespace {

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Result<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      decoded += ' ';
    } else if (text[i] != '%') {
      decoded += text[i];
    } else {
      const auto high = i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
      const auto low = i + 2 < text.size() ? hex_digit(text[i + 2]) : std::nullopt;
      if (!high || !low) return Error::invalid("invalid escape in " + in_quotes(text));
      decoded += static_cast<char>(*high * 16 + *low);
      i += 2;
    }
  }
  return decoded;
}

Result<HttpQuery> HttpQuery::parse(std::string_view query,
                                   const std::vector<std::string_view>& known) {
  HttpQuery parsed;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view part = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (part.empty()) continue;
    const std::size_t equals = std::min(part.find('='), part.size());
    std::string name = HARPE_TRY(percent_decoded(part.substr(0, equals)));
    std::string value = HARPE_TRY(percent_decoded(part.substr(std::min(equals + 1, part.size()))));
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return Error::invalid("unknown query parameter " + in_quotes(name));
    }
    if (parsed.find(name)) return Error::invalid("query parameter " + name + " is given twice");
    parsed.parameters_.emplace_back(std::move(name), std::move(value));
  }
  return parsed;
}

std::optional<std::string_view> HttpQuery::find(std::string_view name) const {
  for (const auto& [known, value] : parameters_) {
    if (known == name) return value;
  }
  return std::nullopt;
}

Result<std::string> HttpQuery::text(std::string_view name) const {
  const auto value = find(name);
  if (!value) return Error::invalid("query parameter " + std::string(name) + " is missing");
  return std::string(*value);
}

Result<bool> HttpQuery::boolean(std::string_view name) const {
  std::string value = HARPE_TRY(text(name));
  if (value == "true") return true;
  if (value == "false") return false;
  return Error::invalid("query parameter " + std::string(name) + " must be true or false, not " +
                        in_quotes(value));
}

Result<std::uint32_t> HttpQuery::number(std::string_view name) const {
  std::string value = HARPE_TRY(text(name));
  const auto number = all_digits(value) ? parse_integer(value) : std::nullopt;
  if (!number || *number > std::numeric_limits<std::uint32_t>::max()) {
    return Error::invalid("query parameter " + std::string(name) +
                          " must be a whole number below 2^32, not " + in_quotes(value));
  }
  return static_cast<std::uint32_t>(*number);
}

Result<std::vector<int>> parse_index_list(std::string_view text, const std::string& noun,
                                          const std::string& name) {
  if (trim(text).empty()) {
    return Error::invalid(name + " must contain at least one " + noun + " index");
  }
  std::vector<int> indices;
  while (true) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = trim(text.substr(0, comma));
    if (part.empty()) return Error::invalid(name + " contains an empty " + noun + " index");
    const auto number = all_digits(part) ? parse_integer(part) : std::nullopt;
    if (!number || *number > std::numeric_limits<int>::max()) {
      return Error::invalid("Invalid " + noun + " index: " + std::string(part.substr(0, 40)));
    }
    indices.push_back(static_cast<int>(*number));
    if (comma == text.size()) break;
    text.remove_prefix(comma + 1);
  }
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

}  // namespace harpe::net
