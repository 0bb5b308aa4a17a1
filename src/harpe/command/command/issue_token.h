#pragma once
/// \file
/// Tokens that the agent and the server know their clients by, as subcommands sign them.

#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/command/command/command.h"

namespace harpe::command {

/// Options of `token issue`, as given.
struct TokenRequest {
  std::string key, user, scopes, expires = "1h";
  std::string job;  ///< the one that it is for; empty: all
};

/// Signs a token. Refuses scopes that are not among the known ones.
Result<Outcome> issue_token(const TokenRequest& request,
                            const std::vector<std::string>& known_scopes);

}  // namespace harpe::command
