#include "harpe/command/cli/find_program.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <system_error>

#include "harpe/command/command/text_layout.h"

namespace harpe::command {

ProgramPlaces ProgramPlaces::of_process() {
  std::error_code unknown;  // without /proc, only PATH is used
  const auto own = std::filesystem::read_symlink("/proc/self/exe", unknown);
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): never set
  return of(own, path == nullptr ? "" : path);
}

ProgramPlaces ProgramPlaces::of(const std::filesystem::path& own, std::string_view search_path) {
  ProgramPlaces places;
  const auto add = [&](const std::filesystem::path& folder) {
    if (!folder.is_absolute()) return;
    if (std::ranges::find(places.folders, folder) == places.folders.end()) {
      places.folders.push_back(folder);
    }
  };
  add(own.parent_path());
  add(own.parent_path().parent_path() / "libexec" / "harpe");
  while (!search_path.empty()) {
    const std::size_t colon = std::min(search_path.find(':'), search_path.size());
    add(search_path.substr(0, colon));
    search_path.remove_prefix(std::min(colon + 1, search_path.size()));
  }
  return places;
}

Result<std::filesystem::path> find_program(const std::string& name, const ProgramPlaces& places) {
  std::vector<std::string> looked;
  for (const std::filesystem::path& folder : places.folders) {
    const std::filesystem::path file = folder / name;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0) {
      return file;
    }
    looked.push_back(folder.string());
  }
  return Error::of(ErrorCode::kUnavailable,
                   name + " is missing: no such program in " +
                       (looked.empty() ? "any folder: PATH is empty" : joined(looked)));
}

Error become(const std::filesystem::path& program, std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(program.c_str(), pointers.data());
  const int why = errno;
  return Error::of(ErrorCode::kUnavailable, program.string() + " cannot be started: " +
                                                std::generic_category().message(why));
}

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
  // Not searched in PATH, where a program of this name may be unrelated.
  parts.trainer = find("trainer", ProgramPlaces::of(own, ""),
                       "The package, the archive and the wheel contain it; in a build folder, "
                       "cmake --build BUILD --target trainer builds it (needs libcurl)");
  find("harpe-agent", ProgramPlaces::of(own, search_path),
       "The package harpe-agent contains it; in a build folder, cmake --build BUILD --target "
       "harpe-agent builds it");
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
