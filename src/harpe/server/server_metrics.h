#pragma once
/// \file
/// GET /metrics: the server in Prometheus' text format.

#include "harpe/server/api.h"

namespace harpe {

void handle_server_metrics(ServerContext& context, const HttpRequest& request, const Reply& reply);

}  // namespace harpe
