#pragma once
/// \file
/// What one server shows another when it hands a request on: that it has their signing keys, and
/// for which client it asks, so that limits are that client's and no client can pass for a server.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harpe/net/service/token_keys.h"

namespace harpe {

/// A token for a few minutes: clocks of servers may differ by as much. It is good for nothing else.
/// \param client  as `HttpRequest::client`; \param now  seconds since 1970
std::string forward_token(const TokenKeys& keys, const std::string& client, std::int64_t now);

/// The client of such a token; none: it is not one, or not of these keys, or too old.
std::optional<std::string> forwarded_client(const TokenKeys& keys, std::string_view token,
                                            std::int64_t now);

}  // namespace harpe
