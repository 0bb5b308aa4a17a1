#include "harpe/command/cli/find_program.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "harpe/command/command/text_layout.h"

namespace harpe::command {

ProgramPlaces ProgramPlaces::of_process() {
  std::error_code unknown;  // without /proc PATH alone says it
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

}  // namespace harpe::command
