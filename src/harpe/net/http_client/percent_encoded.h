#pragma once
/// \file
/// Text within a URL.

#include <string>
#include <string_view>

namespace harpe::net {

/// One part of a path or one value of a query, with escapes.
std::string percent_encoded(std::string_view text);

}  // namespace harpe::net
