#pragma once
/// \file
/// Results that took long to compute or measure, written also where their disk is full.

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/command/command/command.h"

namespace harpe::command {

/// A result on disk.
struct KeptResult {
  std::filesystem::path at;
  /// If it is in another place than the user asked for: why, and where, as a message to the user.
  std::optional<Error> trouble;
};

/// Writes a file or a folder to `place` by calling `write`. If that fails, calls `write` with a new
/// folder that only this user can enter, in the first of these that has room: TMPDIR, /var/tmp, the
/// current folder, HOME, /dev/shm. If all fail, returns the error of `place`.
Result<KeptResult> write_or_keep(const std::filesystem::path& place,
                                 const std::function<Status(const std::filesystem::path&)>& write);

/// If the result is not in its place, prints a warning, and lets the command fail after its output.
void report_kept(const Result<KeptResult>& kept, Console& console, Outcome& outcome);

/// Writes `content` by `write_or_keep` and reports by `report_kept`.
void keep_result(const std::filesystem::path& file, std::string_view content, Console& console,
                 Outcome& outcome);

}  // namespace harpe::command
