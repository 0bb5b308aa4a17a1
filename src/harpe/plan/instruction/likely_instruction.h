#pragma once
/// \file
/// Guesses at the intended instruction for an unknown name.

#include <optional>
#include <string>
#include <string_view>

namespace harpe::plan {

/// Returns the kind for a name that other tools use ("fwd", "wgrad", "allreduce"), else the kind
/// nearest in spelling; nullopt if no name is near.
std::optional<std::string> likely_instruction(std::string_view word);

}  // namespace harpe::plan
