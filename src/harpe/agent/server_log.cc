#include "harpe/agent/server_log.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string>

namespace harpe {

Result<ServerLog> ServerLog::open(const std::filesystem::path& path) {
  ServerLog log;
  log.path_ = path;
  if (Status opened = log.reopen(); !opened.ok()) return std::move(opened).error();
  return log;
}

Status ServerLog::reopen() {
  const std::lock_guard lock(mutex_);
  if (path_.empty()) return ok_status();
  UniqueFd file(
      ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640));
  if (!file) return Error::io(path_, std::strerror(errno));
  file_ = std::move(file);
  return ok_status();
}

void ServerLog::write(std::string_view line) {
  std::string text;
  const std::lock_guard lock(mutex_);
  if (file_) {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    std::array<char, 32> stamp{};
    std::strftime(stamp.data(), stamp.size(), "%Y-%m-%dT%H:%M:%SZ ", &utc);
    text = stamp.data();
  }
  for (const char c : line) text += c == '\n' || c == '\r' ? ' ' : c;
  text += '\n';
  // A log that cannot be written must not stop the agent.
  [[maybe_unused]] const auto written =
      ::write(file_ ? file_.get() : STDERR_FILENO, text.data(), text.size());
}

}  // namespace harpe
