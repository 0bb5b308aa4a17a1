#include "harpe/net/service/server_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>

namespace harpe::net {

Result<ServerLog> ServerLog::open(std::string who, const std::filesystem::path& path) {
  ServerLog log;
  log.who_ = std::move(who);
  log.path_ = path;
  HARPE_TRY(log.reopen());
  return log;
}

Status ServerLog::reopen() {
  const MutexLock lock(mutex_);
  if (path_.empty()) return ok_status();
  // Does not wait for a reader if the path is a pipe.
  UniqueFd file(
      ::open(path_.c_str(),
             O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0640));
  if (!file) return Error::io(path_, std::strerror(errno));
  file_ = std::move(file);
  return ok_status();
}

std::string log_line(std::string_view who, std::string_view line, bool with_time) {
  std::string text;
  if (with_time) {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    std::array<char, 32> stamp{};
    std::strftime(stamp.data(), stamp.size(), "%Y-%m-%dT%H:%M:%SZ ", &utc);
    text = stamp.data();
  }
  text.append(who).append(": ");
  for (const char c : line) text += c == '\n' || c == '\r' ? ' ' : c;
  return text + '\n';
}

bool stderr_is_journal() {
  // "device:inode" of the stream that systemd opened: a child can have another one.
  const char* stream =
      std::getenv("JOURNAL_STREAM");  // NOLINT(concurrency-mt-unsafe): at the start
  struct stat status{};
  if (stream == nullptr || ::fstat(STDERR_FILENO, &status) != 0) return false;
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) == stream;
}

void ServerLog::write(std::string_view line) {
  const MutexLock lock(mutex_);
  const std::string text = log_line(who_, line, file_ || !to_journal_);
  // A log that cannot be written must not stop the server.
  [[maybe_unused]] const auto written =
      ::write(file_ ? file_.get() : STDERR_FILENO, text.data(), text.size());
}

}  // namespace harpe::net
