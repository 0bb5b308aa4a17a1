#pragma once
/// \file
/// Other programs of Harpe that a subcommand starts.

#include <filesystem>
#include <string>
#include <vector>

#include "harpe/base/result.h"

namespace harpe::command {

/// Where a program may be.
struct ProgramPlaces {
  std::vector<std::filesystem::path> folders;

  /// Beside the executable of this process, then in the `libexec/harpe` of its installation, then
  /// where PATH says. Only absolute folders of PATH count: what root starts must not depend on the
  /// working directory.
  static ProgramPlaces of_process();
  /// The same for an executable at `own` and this PATH.
  static ProgramPlaces of(const std::filesystem::path& own, std::string_view search_path);
};

/// The first file of this name that may be executed; an error says where it was looked for.
Result<std::filesystem::path> find_program(const std::string& name, const ProgramPlaces& places);

/// Replaces this process by a program: the same process id, so that signals and the exit status are
/// the program's own. Returns only if the program cannot be started.
/// \param program  absolute path
/// \param words    the name that the program sees as its own, then its arguments
Error become(const std::filesystem::path& program, std::vector<std::string> words);

}  // namespace harpe::command
