#pragma once
/// \file
/// The token that a provider knows its user by: from the environment, or from a file that nobody
/// but its owner may read. It stands in no specification, message or cache.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "harpe/base/result.h"

namespace harpe::carbon {

/// A variable of the environment; nullopt: not set.
using EnvironmentVariable = std::function<std::optional<std::string>(const std::string& name)>;

/// Of this process.
EnvironmentVariable process_environment();

struct ApiTokenNames {
  std::string variable;  ///< "HARPE_ENTSOE_TOKEN"; with "_FILE" after it, of a file that holds it
  std::string file;      ///< "entsoe.token", below ~/.config/harpe
  std::string advice;    ///< how to get a token, a sentence
};

/// The variable, else the file that the other variable names, else the usual file. Fails with
/// kNoPermission: there is none (the error says how to get one and where to put it), the file may
/// be read by others, or it holds what cannot be sent in a header.
Result<std::string> find_api_token(const ApiTokenNames& names, const EnvironmentVariable& variable);

/// $XDG_CONFIG_HOME/harpe or ~/.config/harpe; empty where neither is known.
std::filesystem::path harpe_config_directory(const EnvironmentVariable& variable);

}  // namespace harpe::carbon
