#pragma once
/// \file
/// The token that identifies the user to a provider: read from the environment, or from a file that
/// only its owner may read. It never appears in a specification, message or cache.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "harpe/base/result.h"

namespace harpe::carbon {

/// Returns a variable of the environment; nullopt if it is not set.
using EnvironmentVariable = std::function<std::optional<std::string>(const std::string& name)>;

/// Returns the environment of this process.
EnvironmentVariable process_environment();

struct ApiTokenNames {
  std::string variable;  ///< "HARPE_ENTSOE_TOKEN"; with "_FILE" appended, the path of a file
  std::string file;      ///< "entsoe.token", below ~/.config/harpe
  std::string advice;    ///< how to get a token, as a sentence
};

/// Returns the token from the variable, else from the file that the other variable names, else from
/// the usual file. Fails with kNoPermission if there is none (the error explains how to get one and
/// where to put it), if others may read the file, or if its content cannot be sent in a header.
Result<std::string> find_api_token(const ApiTokenNames& names, const EnvironmentVariable& variable);

/// Returns $XDG_CONFIG_HOME/harpe or ~/.config/harpe; empty if neither is known.
std::filesystem::path harpe_config_directory(const EnvironmentVariable& variable);

}  // namespace harpe::carbon
