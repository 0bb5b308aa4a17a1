#pragma once
/// \file
/// Harpe's own routes, under /v1, and /health: leases, settings, readings, power as it changes.
/// JSON in the body; docs/agent.md has an example of each.

#include "harpe/node/agent/http_api.h"

namespace harpe::node {

/// False when the path is none of these.
bool handle_native(ApiContext& context, net::HttpRequest& request, net::Reply& reply);

}  // namespace harpe::node
