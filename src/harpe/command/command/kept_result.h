#pragma once
/// \file
/// Results that took long to compute or measure, which are also kept if their disk is full.

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
  /// If the result is not where the user requested it: the reason and its path, as a message.
  std::optional<Error> trouble;
};

/// Writes a file or a folder to `place` by calling `write`. If that fails, calls `write` with a new
/// folder that only this user can enter, in the first of these that has room: TMPDIR, /var/tmp, the
/// current folder, HOME, /dev/shm. If all fail, returns the error of `place`.
Result<KeptResult> write_or_keep(const std::filesystem::path& place,
                                 const std::function<Status(const std::filesystem::path&)>& write);

/// If the result is not in its place, warns, and makes the command fail after its output.
void report_kept(const Result<KeptResult>& kept, Console& console, Outcome& outcome);

/// Writes `content` by `write_or_keep` and reports by `report_kept`.
void keep_result(const std::filesystem::path& file, std::string_view content, Console& console,
                 Outcome& outcome);

}  // namespace harpe::command
