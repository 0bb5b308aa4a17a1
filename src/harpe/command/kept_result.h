#pragma once
/// \file
/// Results that took long to compute or measure, written also where their disk is full.

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/command/command.h"

namespace harpe {

/// Where a result was written.
struct KeptResult {
  std::filesystem::path at;
  /// Why it is not where it should be, and where it is, for the user; nullopt: it is there.
  std::optional<Error> trouble;
};

/// Writes a file, or a folder of files, by `write`, to `place`. Where that fails, to a new folder
/// of this user alone in the first of these that has room: that of TMPDIR, /var/tmp, this one,
/// HOME, /dev/shm. The error of `place` where it fails everywhere.
Result<KeptResult> write_or_keep(const std::filesystem::path& place,
                                 const std::function<Status(const std::filesystem::path&)>& write);

/// Warns where a result is not in its place, or nowhere, and has the command fail after it has
/// printed what it found.
void report_kept(const Result<KeptResult>& kept, Console& console, Outcome& outcome);

/// Both with a file of this content.
void keep_result(const std::filesystem::path& file, std::string_view content, Console& console,
                 Outcome& outcome);

}  // namespace harpe
