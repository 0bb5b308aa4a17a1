#pragma once
/// \file
/// Other programs of Harpe that a subcommand starts.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"

namespace harpe::command {

/// The folders in which a program is searched.
struct ProgramPlaces {
  std::vector<std::filesystem::path> folders;

  /// Returns the folder of this process's executable, then `libexec/harpe` of its installation,
  /// then the folders in PATH. Only absolute folders of PATH count: programs that root starts must
  /// not depend on the working directory.
  static ProgramPlaces of_process();
  /// Returns the folders for an executable at `own` and this PATH.
  static ProgramPlaces of(const std::filesystem::path& own, std::string_view search_path);
};

/// Returns the first executable file of this name. Fails with the searched folders.
Result<std::filesystem::path> find_program(const std::string& name, const ProgramPlaces& places);

/// Replaces this process by a program: the same process id, so that signals and the exit status are
/// the program's own. Returns only if the program cannot be started.
/// \param program  absolute path
/// \param words    the name that the program sees as its own, then its arguments
Error become(const std::filesystem::path& program, std::vector<std::string> words);

/// The files of the demonstration, which `harpe demo` starts.
struct DemoParts {
  std::filesystem::path python;   ///< the interpreter
  std::filesystem::path script;   ///< run by the interpreter
  std::filesystem::path trainer;  ///< the program whose processes train
};

/// Finds the parts for the `harpe` at `own`. The script and the trainer belong to the same
/// installation: a package or an archive (share/harpe/demo, libexec/harpe), a wheel (demo) or a
/// build, which has links in the same places. The interpreter is found by PATH. `harpe-agent`,
/// which the script starts, must be installed, too. Fails with `kUnavailable` and one diagnostic
/// for each missing part, which names the package that contains it.
/// \param script  the file name: "run_demo.py"
Result<DemoParts> find_demo_parts(const std::string& script, const std::filesystem::path& own,
                                  std::string_view search_path);

}  // namespace harpe::command
