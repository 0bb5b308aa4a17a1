#pragma once
/// \file
/// Tokens by which the agent and the server identify their clients, as signed by subcommands.

#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/command/command/command.h"

namespace harpe::command {

/// Options of `token issue`, unchanged.
struct TokenRequest {
  std::string key, user, scopes, expires = "1h";
  std::string job;  ///< the only job that it is valid for; empty: all
};

/// Signs a token. Fails if a scope is not among the known ones.
Result<Outcome> issue_token(const TokenRequest& request,
                            const std::vector<std::string>& known_scopes);

}  // namespace harpe::command
