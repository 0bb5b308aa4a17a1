#pragma once
/// \file
/// The agent's own log: lines for operators, apart from the audit log of settings.

#include <filesystem>
#include <mutex>
#include <string_view>

#include "harpe/agent/server_fd.h"
#include "harpe/base/result.h"

namespace harpe {

/// Thread-safe.
class ServerLog {
 public:
  /// \param path  empty: standard error
  static Result<ServerLog> open(const std::filesystem::path& path);
  ServerLog(ServerLog&& other) noexcept
      : path_(std::move(other.path_)), file_(std::move(other.file_)) {}

  /// One line; in a file with the time (UTC). Line ends within are replaced.
  void write(std::string_view line);
  /// Opens the file anew, after it was rotated; on a fault goes on with the old one.
  Status reopen();

 private:
  ServerLog() = default;

  std::mutex mutex_;
  std::filesystem::path path_;
  UniqueFd file_;
};

}  // namespace harpe
