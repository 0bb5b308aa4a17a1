#pragma once
/// \file
/// The routes of zeusd, the daemon of Zeus, so that its clients work with the agent unchanged: same
/// paths, parameters, status codes and bodies. Behind them are leases: the first setting takes the
/// GPU for the client's process, and what was there before comes back when the process ends.
///
/// Beyond zeusd: a GPU that another process holds answers 409; what the policy forbids, 403; power
/// streams begin with the present value and carry heartbeat comments.

#include "harpe/node/agent/http_api.h"

namespace harpe::node {

/// False when the path is none of zeusd's.
bool handle_zeusd(ApiContext& context, net::HttpRequest& request, net::Reply& reply);

}  // namespace harpe::node
