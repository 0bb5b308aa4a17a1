#pragma once
/// \file
/// Commands in the form in which users type them.

#include <string>
#include <vector>

namespace harpe::command {

/// Returns the words as one line that bash, zsh or ksh split into the same words, without bytes
/// that a terminal would interpret.
std::string shell_text(const std::vector<std::string>& words);

}  // namespace harpe::command
