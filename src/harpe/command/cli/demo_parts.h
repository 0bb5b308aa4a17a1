#pragma once
/// \file
/// The files of the demonstration, which `harpe demo` starts.

#include <filesystem>
#include <string>
#include <string_view>

#include "harpe/base/result.h"

namespace harpe::command {

struct DemoParts {
  std::filesystem::path python;   ///< the interpreter
  std::filesystem::path script;   ///< run by the interpreter
  std::filesystem::path trainer;  ///< the program whose processes train
};

/// Finds the parts for the `harpe` at `own`. The script and the trainer belong to the same
/// installation: a package or an archive (share/harpe/demo, libexec/harpe), a wheel (demo) or a
/// build, which has links in the same places. The interpreter is found by PATH. `harpe-agent`,
/// which the script starts, must be installed, too.
/// \param script  the file name: "run_demo.py"
/// \returns kUnavailable with a diagnostic for each missing part, which says what brings it.
Result<DemoParts> find_demo_parts(const std::string& script, const std::filesystem::path& own,
                                  std::string_view search_path);

}  // namespace harpe::command
