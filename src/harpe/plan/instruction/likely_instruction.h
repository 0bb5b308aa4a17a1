#pragma once
/// \file
/// Guesses at what a word that names no instruction was meant to be.

#include <optional>
#include <string>
#include <string_view>

namespace harpe::plan {

/// Returns the name of the kind that is called so elsewhere ("fwd", "wgrad", "allreduce"), else the
/// one nearest in spelling; nullopt if no name is near.
std::optional<std::string> likely_instruction(std::string_view word);

}  // namespace harpe::plan
