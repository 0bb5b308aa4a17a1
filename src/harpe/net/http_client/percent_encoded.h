#pragma once
/// \file
/// Percent encoding of text within a URL.

#include <string>
#include <string_view>

namespace harpe::net {

/// Returns the text as one part of a path or one value of a query, with escapes.
std::string percent_encoded(std::string_view text);

}  // namespace harpe::net
