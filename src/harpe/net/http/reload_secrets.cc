#include "harpe/net/http/reload_secrets.h"

#include <string>

namespace harpe::net {
namespace {

void tell(const Result<bool>& reloaded, const std::string& what, ServerLog& log) {
  if (!reloaded.ok()) {
    log.write("goes on with the " + what + " from before: " + reloaded.error().text());
  } else if (*reloaded) {
    log.write("has read " + what + " again");
  }
}

}  // namespace

void reload_secrets(TokenKeys* keys, HttpServer& server, ServerLog& log) {
  if (keys != nullptr) tell(keys->reload(), "signing keys and revoked tokens", log);
  tell(server.reload_certificates(), "certificates", log);
}

}  // namespace harpe::net
