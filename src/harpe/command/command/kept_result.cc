#include "harpe/command/command/kept_result.h"

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/file.h"

namespace harpe::command {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> other_places() {
  std::error_code failed;
  std::vector<fs::path> places{fs::temp_directory_path(failed), "/var/tmp",
                               fs::current_path(failed)};
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread sets variables
  if (const char* home = std::getenv("HOME")) places.emplace_back(home);
  places.emplace_back("/dev/shm");
  return places;
}

}  // namespace

Result<KeptResult> write_or_keep(const fs::path& place,
                                 const std::function<Status(const fs::path&)>& write) {
  Status written = write(place);
  if (written.ok()) return KeptResult{.at = place, .trouble = std::nullopt};
  Error trouble = std::move(written).error();
  const fs::path name = (place.has_filename() ? place : place.parent_path()).filename();
  for (const fs::path& parent : other_places()) {
    std::string folder = (parent / "harpe-kept-XXXXXX").string();
    if (parent.empty() || ::mkdtemp(folder.data()) == nullptr) continue;
    const fs::path at = fs::path(folder) / (name == "." || name == ".." ? fs::path("out") : name);
    if (write(at).ok()) {
      trouble.diagnostics.push_back(
          {.message = "kept as " + at.string() + ": move it to where it should be"});
      return KeptResult{.at = at, .trouble = std::move(trouble)};
    }
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  return trouble;
}

void report_kept(const Result<KeptResult>& kept, Console& console, Outcome& outcome) {
  if (kept.ok() && !kept->trouble) return;
  const Error& trouble = kept.ok() ? *kept->trouble : kept.error();
  console.warn(trouble.text());
  outcome.status = exit_status(trouble.code);
}

void keep_result(const fs::path& file, std::string_view content, Console& console,
                 Outcome& outcome) {
  const auto write = [&](const fs::path& at) { return write_file(at, content); };
  report_kept(write_or_keep(file, write), console, outcome);
}

}  // namespace harpe::command
