#pragma once
/// \file
/// The log of a server: lines for operators.

#include <filesystem>
#include <string>
#include <string_view>

#include "harpe/base/mutex.h"
#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"

namespace harpe::net {

/// Returns a line of the log: "2026-03-01T12:00:00Z harpe agent: asked to stop". Replaces line ends
/// within the text.
/// \param who  "harpe agent"
std::string log_line(std::string_view who, std::string_view line, bool with_time = true);
/// Returns true if standard error is systemd's journal, which adds the time itself.
bool stderr_is_journal();

/// Thread-safe.
class ServerLog {
 public:
  /// \param who   "harpe agent"
  /// \param path  empty: standard error
  static Result<ServerLog> open(std::string who, const std::filesystem::path& path);
  ServerLog(ServerLog&& other) noexcept
      : who_(std::move(other.who_)),
        path_(std::move(other.path_)),
        file_(std::move(other.file_)),
        to_journal_(other.to_journal_) {}

  /// Writes one line, with the time (UTC) unless it goes to the journal.
  void write(std::string_view line);
  /// Reopens the file after it was rotated. On an error the old one stays in use.
  Status reopen();

 private:
  ServerLog() = default;

  Mutex mutex_;
  std::string who_;
  std::filesystem::path path_;
  UniqueFd file_ HARPE_GUARDED_BY(mutex_);
  bool to_journal_ = stderr_is_journal();
};

}  // namespace harpe::net
