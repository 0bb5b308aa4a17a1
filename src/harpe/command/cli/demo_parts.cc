#include "harpe/command/cli/demo_parts.h"

#include <optional>
#include <system_error>
#include <utility>

#include "harpe/command/cli/find_program.h"

namespace harpe::command {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> find_script(const std::string& script, const fs::path& own) {
  const fs::path prefix = own.parent_path().parent_path();
  for (const fs::path& folder : {prefix / "share" / "harpe" / "demo", prefix / "demo"}) {
    std::error_code ignored;
    if (fs::is_regular_file(folder / script, ignored)) return folder / script;
  }
  return std::nullopt;
}

}  // namespace

Result<DemoParts> find_demo_parts(const std::string& script, const fs::path& own,
                                  std::string_view search_path) {
  DemoParts parts;
  Error missing{ErrorCode::kUnavailable, {}};
  const auto find = [&](const char* program, const ProgramPlaces& places, const char* remedy) {
    Result<fs::path> found = find_program(program, places);
    if (found.ok()) return *std::move(found);
    for (const Diagnostic& one : found.error().diagnostics) {
      missing.diagnostics.push_back({.message = one.message + ". " + remedy});
    }
    return fs::path();
  };
  parts.python = find("python3", ProgramPlaces::of({}, search_path),
                      "Install Python 3.9 or later (sudo apt install python3)");
  // Not by PATH: a program of this name there may be anything.
  parts.trainer = find("trainer", ProgramPlaces::of(own, ""),
                       "The package, the archive and the wheel have it; in a build, "
                       "cmake --build BUILD --target trainer makes it, which needs libcurl");
  find("harpe-agent", ProgramPlaces::of(own, search_path),
       "The package harpe-agent has it; in a build, cmake --build BUILD --target harpe-agent "
       "makes it");
  if (const auto found = find_script(script, own)) {
    parts.script = *found;
  } else {
    missing.diagnostics.push_back(
        {.message = script + " is missing: no such file in the share/harpe/demo of " +
                    own.parent_path().parent_path().string() +
                    ". Install the whole package, archive or wheel (docs/install.md)"});
  }
  if (!missing.diagnostics.empty()) return missing;
  return parts;
}

}  // namespace harpe::command
