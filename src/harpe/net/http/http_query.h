#pragma once
/// \file
/// Parameters of a query string; each must be known, occur once, and have its type.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/base/result.h"

namespace harpe::net {

/// Decodes `%41` and `+` (application/x-www-form-urlencoded). Fails on a malformed escape.
Result<std::string> percent_decoded(std::string_view text);

class HttpQuery {
 public:
  /// Splits "a=1&b=2". Fails if a parameter is not in `known` or occurs twice.
  static Result<HttpQuery> parse(std::string_view query,
                                 const std::vector<std::string_view>& known);

  std::optional<std::string_view> find(std::string_view name) const;
  /// Fails with an error that names the parameter if it is missing or has the wrong type.
  Result<std::string> text(std::string_view name) const;
  Result<bool> boolean(std::string_view name) const;  ///< "true" or "false"
  Result<std::uint32_t> number(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, std::string>> parameters_;
};

/// Parses "1,0,1" to {0, 1}: sorted, without duplicates.
/// \param noun  "GPU" or "CPU"
/// \param name  of the parameter, for errors
Result<std::vector<int>> parse_index_list(std::string_view text, const std::string& noun,
                                          const std::string& name);

}  // namespace harpe::net
