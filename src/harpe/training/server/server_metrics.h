#pragma once
/// \file
/// GET /metrics: the server, and jobs whose training goes on, in Prometheus' text format.

#include "harpe/training/server/api.h"

namespace harpe::training {

void handle_server_metrics(ServerContext& context, const net::Reply& reply);

}  // namespace harpe::training
