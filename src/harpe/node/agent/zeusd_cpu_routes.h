#pragma once
/// \file
/// zeusd's routes under /cpu/.

#include "harpe/node/agent/http_api.h"

namespace harpe {

void get_cpu_energy(ApiContext& context, const HttpRequest& request, const Reply& reply);
void get_cpu_power(ApiContext& context, const HttpRequest& request, const Reply& reply);
void stream_cpu_power(ApiContext& context, const HttpRequest& request, const Reply& reply);

}  // namespace harpe
