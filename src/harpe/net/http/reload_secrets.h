#pragma once
/// \file
/// Keys, revoked tokens and certificates follow their files while a server runs.

#include "harpe/net/http/http_server.h"
#include "harpe/net/service/server_log.h"
#include "harpe/net/service/token_keys.h"

namespace harpe::net {

/// How often a server looks: what replaces files, as Kubernetes and certbot do, sends no signal.
constexpr Seconds kReloadPeriod{10};

/// Reads what was written since, and logs what came of it. \param keys  or null
void reload_secrets(TokenKeys* keys, HttpServer& server, ServerLog& log);

}  // namespace harpe::net
