#pragma once
/// \file
/// Command lines run as a user runs them, for tests of subcommands.

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "harpe/command/command/command.h"

namespace harpe::command {

/// The output of a command and its exit status.
struct Said {
  int status = 0;
  std::string out, err;
};

/// \param add  adds the subcommands under test to `harpe`
inline Said harpe_with(void (*add)(Commands&), const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  const auto make = [add] {
    auto commands = std::make_unique<Commands>("harpe", "a part of harpe", "harpe SUBCOMMAND");
    add(*commands);
    return commands;
  };
  const int status = run_program(make, arguments, console);
  return {.status = status, .out = out.str(), .err = err.str()};
}

}  // namespace harpe::command
