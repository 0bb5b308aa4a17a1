#pragma once
/// \file
/// Commands as one types them.

#include <string>
#include <vector>

namespace harpe::command {

/// The words as a command line that bash, zsh or ksh would take apart into them again, on one line
/// and without bytes that a terminal would obey.
std::string shell_text(const std::vector<std::string>& words);

}  // namespace harpe::command
